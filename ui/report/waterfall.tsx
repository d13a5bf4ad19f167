// The slowest requests: what each was late for, step by step, beside a typical one.
import { useMemo, useRef, useState } from 'preact/hooks'
import type { Document, Path, Step } from './data'
import { base, count, duration, percent, shortName } from './format'

interface Node { step: Step; key: number; inside: Node[] }

// tree puts each step under the wait that it explains.
function tree(steps: Step[]): Node[] {
  const top: Node[] = [], open: Node[] = []
  steps.forEach((step, key) => {
    const node: Node = { step, key, inside: [] }
    while (open.length > 0 && open[open.length - 1]!.step.d >= step.d) open.pop()
    ;(open.length > 0 ? open[open.length - 1]!.inside : top).push(node)
    open.push(node)
  })
  return top
}

const kind = (s: Step): string => s.several ? 'short' : s.state.startsWith('waiting') ? 'waiting' : s.state

// said is a step in a few words.
function said(s: Step): string {
  if (s.several) return `${count(s.several)} short steps`
  const at = s.where ? ' in ' + shortName(s.where) : ''
  switch (kind(s)) {
    case 'running': return 'runs' + at
    case 'runnable': return 'is ready to run' + at
    case 'syscall': return 'is in a system call' + at
    case 'waiting': return s.state.replace('waiting', 'waits') + (s.call ? ' ' + shortName(s.call) : '') + at
  }
  return 'nothing is known'
}

function Stack({ doc, i }: { doc: Document; i: number }) {
  const frames = doc.stacks[i]
  if (!frames) return null
  return <details><summary>Stack</summary>
    <ol class="stack" aria-label="Stack, the innermost first">
      {[...frames].reverse().map((f, k) => {
        const x = doc.frames[f]!
        return <li key={k}><code>{x.f}</code>{x.p && <span class="faint" title={x.p}> {base(x.p)}{x.l ? `:${x.l}` : ''}</span>}</li>
      })}
    </ol>
  </details>
}

function Pieces({ doc, pieces, of }: { doc: Document; pieces: [number, number][]; of: number }) {
  if (pieces.length === 0) return null
  const most = 8, named = pieces.filter(p => p[0] >= 0), rest = [...named.slice(most), ...pieces.filter(p => p[0] < 0)]
  return <table class="pieces"><tbody>
    {named.slice(0, most).map(([leaf, ns]) => {
      const l = doc.leaves[leaf]!
      return <tr key={leaf}><td class="n">{duration(ns)}</td><td class="n faint">{percent(ns / of)}</td><td>{l.text}{l.cause && <> <span class="tag">{l.cause.replaceAll('|', ' or ')}</span></>}</td></tr>
    })}
    {rest.length > 0 && <tr><td class="n">{duration(rest.reduce((n, p) => n + p[1], 0))}</td><td class="n faint">{percent(rest.reduce((n, p) => n + p[1], 0) / of)}</td><td>smaller parts</td></tr>}
  </tbody></table>
}

// A Row is a step; one that was opened shows where it stood, and what its waker did.
function Row({ doc, path, node, scale, open, toggle }: { doc: Document; path: Path; node: Node; scale: number; open: Set<number>; toggle: (key: number) => void }) {
  const s = node.step, is = open.has(node.key), took = s.to - s.from
  const inner = node.inside.length > 0
  return <>
    <li role="none">
      <button type="button" role="treeitem" class="step" aria-expanded={is} aria-level={s.d + 1} data-key={node.key} onClick={() => toggle(node.key)}>
        <span class="said" style={{ paddingLeft: `${Math.min(s.d, 12) * 0.9}em` }}>
          <span class="arrow" aria-hidden="true">{is ? '▾' : '▸'}</span>
          {s.d > 0 && <span class="faint">goroutine {s.g} </span>}{said(s)}{inner && !is && <span class="faint"> +{node.inside.length}</span>}
        </span>
        <span class="took">{duration(took)}</span>
        <span class="lane" aria-hidden="true"><span class={'piece ' + kind(s)} style={{ left: `${100 * s.from / scale}%`, width: `${Math.max(100 * took / scale, 0.15)}%` }} /></span>
      </button>
      {is && <div class="about" style={{ marginLeft: `${Math.min(s.d, 12) * 0.9 + 1.2}em` }}>
        <p class="faint">goroutine {s.g}{s.root && <> of <code>{s.root}</code></>}, from {duration(s.from)} to {duration(s.to)} of the request: {s.several ? 'steps that are each too short to be drawn' : s.state}
          {!!s.waker && <>; goroutine {s.waker} ended the wait</>}{inner && <>. What it did meanwhile stands below.</>}</p>
        <Pieces doc={doc} pieces={s.pieces ?? []} of={path.took} />
        <Stack doc={doc} i={s.stack} />
      </div>}
    </li>
    {is && node.inside.map(n => <Row key={n.key} doc={doc} path={path} node={n} scale={scale} open={open} toggle={toggle} />)}
  </>
}

// explained are the steps to begin with: those that a good part of the time went to.
function explained(nodes: Node[], took: number, out = new Set<number>()): Set<number> {
  for (const n of nodes) {
    if (n.inside.length > 0 && n.step.to - n.step.from >= took / 5) {
      out.add(n.key)
      explained(n.inside, took, out)
    }
  }
  return out
}

function Waterfall({ doc, path, scale, name }: { doc: Document; path: Path; scale: number; name: string }) {
  const nodes = useMemo(() => tree(path.steps), [path])
  const [open, setOpen] = useState(() => explained(nodes, path.took))
  const list = useRef<HTMLUListElement>(null)
  const toggle = (key: number) => {
    const next = new Set(open)
    if (!next.delete(key)) next.add(key)
    setOpen(next)
  }
  const key = (e: KeyboardEvent) => {
    const at = (e.target as HTMLElement).closest<HTMLButtonElement>('.step')
    if (!at || !list.current) return
    const all = [...list.current.querySelectorAll<HTMLButtonElement>('.step')]
    const go = (i: number) => { all[Math.min(Math.max(i, 0), all.length - 1)]?.focus(); e.preventDefault() }
    const is = open.has(+at.dataset['key']!)
    switch (e.key) {
      case 'ArrowDown': return go(all.indexOf(at) + 1)
      case 'ArrowUp': return go(all.indexOf(at) - 1)
      case 'Home': return go(0)
      case 'End': return go(all.length - 1)
      case 'ArrowRight': if (!is) toggle(+at.dataset['key']!); e.preventDefault(); break
      case 'ArrowLeft': if (is) toggle(+at.dataset['key']!); e.preventDefault(); break
    }
  }
  return <div class="waterfall">
    <h4>{name} <span class="faint">{path.id} · goroutine {path.g} · began at {duration(path.start)} · took</span> <span class="total" data-raw={path.took}>{duration(path.took)}</span>{path.open && <span class="faint"> so far</span>}</h4>
    {path.steps.length === 0 ? <p class="faint">Nothing is known of its steps.</p>
      : <ul ref={list} role="tree" aria-label={`Steps of ${path.id}`} class="steps" onKeyDown={key}>
        {nodes.map(n => <Row key={n.key} doc={doc} path={path} node={n} scale={scale} open={open} toggle={toggle} />)}
      </ul>}
    <details class="parts"><summary>What its time was, together</summary><Pieces doc={doc} pieces={path.pieces} of={path.took} /></details>
  </div>
}

// A Strip is a path on one line.
function Strip({ path }: { path: Path }) {
  return <span class="strip" aria-hidden="true">{path.steps.filter(s => s.d === 0).map((s, i) =>
    <span key={i} class={'piece ' + kind(s)} style={{ left: `${100 * s.from / path.took}%`, width: `${Math.max(100 * (s.to - s.from) / path.took, 0.2)}%` }} />)}</span>
}

export function Requests({ doc, selected, select }: { doc: Document; selected: number; select: (i: number) => void }) {
  const [own, setOwn] = useState(false)
  const [more, setMore] = useState(false)
  const path = doc.slowest[selected]
  if (!path) return null
  const same = doc.usual.find(u => u.endpoint === path.endpoint), usual = same ?? doc.usual.find(u => u.unseen)
  const first = 8, shown = more || selected >= first ? doc.slowest : doc.slowest.slice(0, first)
  return <section id="requests">
    <h2>The slowest requests</h2>
    <p class="legend">
      <span class="key running" /> runs <span class="key runnable" /> ready to run <span class="key syscall" /> system call <span class="key waiting" /> waits <span class="key short" /> short steps <span class="key unknown" /> nothing known
    </p>
    <ol class="slowest" aria-label="Slowest requests">
      {shown.map((p, i) => <li key={p.id}>
        <button type="button" aria-pressed={i === selected} data-id={p.id} onClick={() => select(i)}>
          <span class="took" data-raw={p.took}>{duration(p.took)}</span><span class="endpoint" title={p.endpoint}>{shortName(p.endpoint) || p.id}</span><Strip path={p} />
        </button>
      </li>)}
    </ol>
    {shown.length < doc.slowest.length && <button type="button" class="link" onClick={() => setMore(true)}>all {doc.slowest.length}</button>}
    <Waterfall key={path.id} doc={doc} path={path} scale={Math.max(path.took, 1)} name={path.endpoint || 'A slow request'} />
    {usual ? <>
      <p class="scale"><label><input type="checkbox" checked={own} onChange={e => setOwn((e.target as HTMLInputElement).checked)} /> draw the typical request on a scale of its own</label></p>
      <Waterfall key={'usual' + usual.id} doc={doc} path={usual} scale={Math.max(own ? usual.took : Math.max(path.took, usual.took), 1)} name={same ? 'A typical one of the same endpoint' : 'A typical one that was too fast to be seen in a handler: it may be of this endpoint or of another'} />
    </> : <p class="faint">No request of this endpoint is typical: there is none to compare it with.</p>}
  </section>
}
