// The lateness flame graph: where the time stands that slow requests took more than typical ones.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Document, Leaf } from './data'
import { base, duration, percent } from './format'

interface Box { name: string; file: string; line: number; leaf?: Leaf; value: number; depth: number; x: number; parent: Box | null; inside: Map<string, Box> }

const rowHeight = 20, deepest = 64

// grow makes one tree of all the ways that hold excess; what became less has no width.
function grow(doc: Document): { root: Box; less: number; depth: number } {
  const box = (name: string, file: string, line: number, depth: number, parent: Box | null): Box => ({ name, file, line, value: 0, depth, x: 0, parent, inside: new Map() })
  const root = box('all slow requests', '', 0, 0, null)
  let less = 0, depth = 0
  for (const l of doc.leaves) {
    if (l.excess <= 0) { less += l.excess; continue }
    let at = root
    at.value += l.excess
    for (const f of (doc.stacks[l.stack] ?? []).slice(-deepest)) {
      const x = doc.frames[f]!, key = `${x.f}\n${x.p ?? ''}`
      let next = at.inside.get(key)
      if (!next) {
        next = box(x.f, x.p ?? '', x.l ?? 0, at.depth + 1, at)
        at.inside.set(key, next)
      }
      at = next
      at.value += l.excess
      depth = Math.max(depth, at.depth)
    }
    at.leaf = l
  }
  const place = (b: Box) => {
    let x = b.x
    for (const c of [...b.inside.values()].sort((p, q) => q.value - p.value)) {
      c.x = x
      x += c.value
      place(c)
    }
  }
  place(root)
  return { root, less, depth }
}

const sorted = (b: Box): Box[] => [...b.inside.values()].sort((p, q) => p.x - q.x)

function matches(b: Box, search: string): boolean {
  return search !== '' && (b.name + b.file).toLowerCase().includes(search.toLowerCase())
}

export function Flame({ doc, theme }: { doc: Document; theme: string }) {
  const { root, less, depth } = useMemo(() => grow(doc), [doc])
  const [zoom, setZoom] = useState(root)
  const [at, setAt] = useState(root)
  const [search, setSearch] = useState('')
  const [width, setWidth] = useState(800)
  const canvas = useRef<HTMLCanvasElement>(null), holder = useRef<HTMLDivElement>(null)
  const height = (depth + 1) * rowHeight

  useEffect(() => {
    const el = holder.current
    if (!el) return
    const measure = () => { if (el.clientWidth > 0) setWidth(el.clientWidth) }
    measure()
    const watch = new ResizeObserver(measure)
    watch.observe(el)
    return () => watch.disconnect()
  }, [])

  useEffect(() => {
    const c = canvas.current
    if (!c) return
    const ratio = devicePixelRatio || 1
    c.width = Math.round(width * ratio)
    c.height = Math.round(height * ratio)
    const g = c.getContext('2d')!
    g.scale(ratio, ratio)
    g.font = '12px system-ui, sans-serif'
    g.textBaseline = 'middle'
    const style = getComputedStyle(document.documentElement), colour = (n: string) => style.getPropertyValue('--' + n).trim()
    const text = colour('text'), page = colour('page'), strong = colour('strong')
    const fill = { frame: colour('flame-frame'), own: colour('flame-own'), waker: colour('flame-waker'), leaf: colour('flame-leaf'), found: colour('found') }
    const draw = (b: Box) => {
      const k = width / zoom.value
      const x0 = Math.max(0, (b.x - zoom.x) * k), x1 = Math.min(width, (b.x + b.value - zoom.x) * k)
      if (x1 - x0 < 0.5) return
      const y = b.depth * rowHeight
      g.fillStyle = matches(b, search) ? fill.found : b.leaf && b.inside.size === 0 ? fill.leaf : b.file === '' ? fill.waker : fill.frame
      g.fillRect(x0, y, Math.max(0.5, x1 - x0 - 0.5), rowHeight - 1)
      if (b === at) {
        g.strokeStyle = strong
        g.lineWidth = 2
        g.strokeRect(x0 + 1, y + 1, Math.max(1, x1 - x0 - 2.5), rowHeight - 3)
      }
      if (x1 - x0 > 30) {
        g.save()
        g.beginPath()
        g.rect(x0, y, x1 - x0 - 3, rowHeight)
        g.clip()
        g.fillStyle = matches(b, search) ? page : text
        g.fillText(b.file === '' ? b.name : b.name.slice(b.name.lastIndexOf('/') + 1), x0 + 4, y + rowHeight / 2)
        g.restore()
      }
      for (const c of b.inside.values()) draw(c)
    }
    g.clearRect(0, 0, width, height)
    draw(root)
  }, [root, zoom, at, search, width, height, theme])

  if (root.value <= 0) return null

  const find = (e: MouseEvent): Box | null => {
    const r = canvas.current!.getBoundingClientRect()
    const value = zoom.x + (e.clientX - r.left) / width * zoom.value, row = Math.floor((e.clientY - r.top) / rowHeight)
    let b: Box | undefined = root
    while (b && b.depth < row) b = sorted(b).find(c => value >= c.x && value < c.x + c.value)
    return b ?? null
  }
  const key = (e: KeyboardEvent) => {
    const siblings = at.parent ? sorted(at.parent) : [at], i = siblings.indexOf(at)
    const next = { ArrowDown: sorted(at)[0], ArrowUp: at.parent ?? undefined, ArrowRight: siblings[i + 1], ArrowLeft: siblings[i - 1] }[e.key]
    if (next) setAt(next)
    else if (e.key === 'Enter' || e.key === ' ') setZoom(at)
    else if (e.key === 'Escape') setZoom(root)
    if (e.key.startsWith('Arrow') || e.key === 'Enter' || e.key === ' ') e.preventDefault()
  }
  const found = (b: Box): number => matches(b, search) ? b.value : [...b.inside.values()].reduce((n, c) => n + found(c), 0)
  return <section id="flame">
    <h2>{doc.whole ? 'Where every request’s time stands' : 'Where the slow requests’ extra time stands'}</h2>
    <p class="legend">
      Width is {doc.whole ? 'time of the mean request' : 'excess of the mean slow request'}: {duration(root.value)}
      {less < -root.value / 1000 && <>; of other parts slow requests have {duration(-less)} less, which is not drawn</>}.
      {' '}<span class="key flame-frame" /> function <span class="key flame-waker" /> whom it waited for <span class="key flame-leaf" /> what it was.
      Arrow keys move, Enter zooms, Escape shows all.
    </p>
    <p class="tools">
      <label>Search <input type="search" value={search} onInput={e => setSearch((e.target as HTMLInputElement).value)} /></label>
      {search !== '' && <span aria-live="polite"> {percent(found(root) / root.value)}</span>}
      {zoom !== root && <button type="button" class="link" onClick={() => setZoom(root)}>show all</button>}
    </p>
    <div ref={holder} class="flame">
      <canvas ref={canvas} tabIndex={0} role="img" aria-label="Flame graph of lateness; the arrow keys move in it" aria-describedby="frame"
        style={{ width: `${width}px`, height: `${height}px` }}
        onMouseMove={e => { const b = find(e); if (b) setAt(b) }} onClick={e => { const b = find(e); if (b) setZoom(b) }} onKeyDown={key} />
    </div>
    <p id="frame" aria-live="polite"><strong>{duration(at.value)}</strong> {percent(at.value / root.value)} <code>{at.name}</code>
      {at.file !== '' && <span class="faint" title={at.file}> {base(at.file)}{at.line ? `:${at.line}` : ''}</span>}
      {at.leaf?.cause && <> <span class="tag">{at.leaf.cause.replaceAll('|', ' or ')}</span></>}</p>
  </section>
}
