// What was found: the sentence, the shares that add up, each cause, and what was ruled out.
import type { Consistent, Document, Finding, Place, Row, RuledOut } from './data'
import { base, count, counted, duration, number, percent, tenths } from './format'

interface Props { doc: Document }

const words: Record<string, string> = { cause: 'cause found', healthy: 'healthy', inconclusive: 'inconclusive' }

function Number({ name, value, raw }: { name: string; value: string; raw: number }) {
  return <div class="number"><dt>{name}</dt><dd data-key={name} data-raw={raw}>{value}</dd></div>
}

export function Answer({ doc: { diagnosis: d } }: Props) {
  const r = d.requests, t = d.target
  const about = [
    t.url, t.file, t.pid ? `pid ${t.pid}` : '', t.go, t.gomaxprocs ? `GOMAXPROCS ${t.gomaxprocs}` : '',
    d.duration_ns > 0 ? `recorded ${duration(d.duration_ns)}` : '',
    d.started.startsWith('0001') ? '' : `from ${d.started.slice(0, 19).replace('T', ' ')}`,
  ].filter(Boolean)
  return <section id="answer" aria-labelledby="sentence">
    <p class={'verdict ' + d.verdict}>{words[d.verdict] ?? d.verdict}{d.reason && ` (${d.reason})`}</p>
    <h1 id="sentence">{d.sentence}</h1>
    {(d.lost.bytes !== 0 || d.lost.detail) && <p class="lost">Lost: {d.lost.bytes ? `${count(d.lost.bytes)} bytes` : 'a part'} of the recording{d.lost.detail && `: ${d.lost.detail}`}.</p>}
    <p class="faint">{about.join(' · ')}</p>
    {r.count + r.in_flight > 0 ? <>
      <dl class="numbers" aria-label="Latency">
        <Number name="p50" value={duration(r.p50_ns)} raw={r.p50_ns} />
        <Number name="p90" value={duration(r.p90_ns)} raw={r.p90_ns} />
        <Number name="p99" value={duration(r.p99_ns)} raw={r.p99_ns} />
        {r.count >= 1000 && <Number name="p99.9" value={duration(r.p999_ns)} raw={r.p999_ns} />}
        <Number name="max" value={duration(r.max_ns)} raw={r.max_ns} />
        <Number name="requests" value={count(r.count)} raw={r.count} />
        {r.in_flight > 0 && <Number name="in flight" value={count(r.in_flight)} raw={r.in_flight} />}
      </dl>
      <p class="faint">
        Found by {r.found_by || 'nothing'}; clock: {r.clock}.
        {r.tail.count > 0 && ` The tail is the slowest ${count(r.tail.count)} (mean ${duration(r.tail.mean_ns)}${r.tail.episodes ? `, in ${counted(r.tail.episodes, 'episode')}` : ''}), typical are ${count(r.typical.count)} (mean ${duration(r.typical.mean_ns)}).`}
        {r.arrival_ns > 0 && ` Slow requests had been waiting about ${duration(r.arrival_ns)} before the first sign of them (an estimate, not part of the durations).`}
        {r.in_flight > 0 && ` The oldest request in flight began ${duration(r.oldest_in_flight_ns)} before the end; percentiles, tail and typical ones are with those in flight.`}
        {d.level && ` The median request takes ${duration(d.level.median_ns)}, ${percent(d.level.wait_share)} of it not on its own CPU (compared with ${d.level.against}).`}
        {r.excluded.length > 0 && ` Left out: ${r.excluded.map(c => `${c.class} ${count(c.count)}`).join(', ')}.`}
      </p>
    </> : <p class="faint">No requests were found.</p>}
  </section>
}

const title = (contrast: string, ns: number): string =>
  contrast === 'level' ? 'Where every request’s time goes'
    : ns > 0 ? `Where the extra ${duration(ns)} of the slow requests go` : 'Where the slow requests’ extra time goes'

// tone is the colour of a row, by its place among those of its kind.
function tones(rows: Row[]): string[] {
  let named = 0, alike = 0, rest = 0
  return rows.map(r => r.kind === 'named' ? `named${named++ % 4}` : r.kind === 'consistent' ? `alike${alike++ % 2}` : `rest${rest++ % 4}`)
}

export function Shares({ doc }: Props) {
  if (doc.accounts.length === 0) return null
  return <section id="shares" aria-label="Shares">
    {doc.accounts.map(a => {
      const rows = a.rows ?? [], tone = tones(rows)
      const whole = rows.reduce((n, r) => n + Math.max(0, r.tenths), 0) || 1
      return <div key={a.contrast} class="account" data-contrast={a.contrast}>
        <h2>{title(a.contrast, a.excess_ns)}</h2>
        <div class="bar" role="img" aria-label={rows.map(r => `${r.label} ${tenths(r.tenths)}`).join(', ')}>
          {rows.map((r, i) => r.tenths > 0 && <span key={i} class={tone[i]} style={{ width: `${100 * r.tenths / whole}%` }} title={`${r.label} ${tenths(r.tenths)}`}>
            {r.tenths / whole > 0.04 && r.mark}
          </span>)}
        </div>
        <table class="shares">
          <thead><tr><th scope="col"><span class="hidden">Mark</span></th><th scope="col">Part</th><th scope="col" class="n">Share</th><th scope="col" class="n">Excess</th><th scope="col" class="n wide">90 % interval</th></tr></thead>
          <tbody>
            {rows.map((r, i) => <tr key={i} class={r.kind}>
              <td><span class={'mark ' + tone[i]}>{r.mark}</span></td>
              <td class="label">{r.label}</td>
              <td class="n" data-tenths={r.tenths}>{tenths(r.tenths)}</td>
              <td class="n">{r.excess_ns !== 0 && duration(r.excess_ns)}</td>
              <td class="n wide faint">{r.interval}</td>
            </tr>)}
          </tbody>
          <tfoot><tr><td /><td>together</td><td class="n">{tenths(rows.reduce((n, r) => n + r.tenths, 0))}</td><td /><td class="wide" /></tr></tfoot>
        </table>
      </div>
    })}
  </section>
}

function Where({ at }: { at?: Place | null }) {
  if (!at) return null
  return <p class="where"><code>{at.function}</code>{at.file && <> at <code title={at.file}>{base(at.file)}{at.line ? `:${at.line}` : ''}</code></>}</p>
}

function List({ name, items }: { name: string; items?: string[] | null }) {
  if (!items || items.length === 0) return null
  return <><h4>{name}</h4><ul>{items.map((x, i) => <li key={i}>{x}</li>)}</ul></>
}

function Cause({ f, i, p99, show, known }: { f: Finding; i: number; p99: number; show: (id: string) => void; known: Set<string> }) {
  return <article class="finding" data-cause={f.cause}>
    <h3><span class={`mark named${i % 4}`}>{i < 9 ? i + 1 : '+'}</span> {f.cause} <span class="faint">{percent(f.share)}{f.contrast === 'level' && ' of every request'}</span></h3>
    <p class="summary">{f.summary}</p>
    <Where at={f.where} />
    {!!f.p99_without_ns && <p>p99 {duration(p99)} → <strong>{duration(f.p99_without_ns)}</strong> without it</p>}
    {f.via && f.via.length > 0 && <p class="faint">by way of {f.via.join(' → ')}</p>}
    <List name="Evidence" items={f.evidence} />
    <List name="Fix" items={f.fix} />
    {f.verify && <><h4>Verify</h4><p>{f.verify}</p></>}
    <p class="faint">confidence {f.confidence || 'unknown'}{f.pattern && `; ${f.pattern}`}
      {f.examples && f.examples.length > 0 && <>; examples {f.examples.map(e => known.has(e)
        ? <button key={e} type="button" class="link" onClick={() => show(e)}>{e}</button>
        : <span key={e}>{e} </span>)}</>}
    </p>
  </article>
}

function Alike({ k }: { k: Consistent }) {
  return <article class="finding alike">
    <h3><span class="mark alike0">?</span> {k.causes.join(' or ')} <span class="faint">{percent(k.share)}</span></h3>
    <p class="summary">{k.summary}</p>
    <Where at={k.where} />
    <List name="Evidence" items={k.evidence} />
    {k.record && <p>To decide, record <code>{k.record}</code></p>}
  </article>
}

export function Findings({ doc: { diagnosis: d, slowest }, show }: Props & { show: (id: string) => void }) {
  if (d.findings.length + d.consistent_with.length === 0) return null
  const known = new Set(slowest.map(p => p.id))
  return <section id="findings">
    <h2>{d.findings.length > 0 ? 'Causes' : 'What it is consistent with'}</h2>
    {d.findings.map((f, i) => <Cause key={i} f={f} i={i} p99={d.requests.p99_ns} show={show} known={known} />)}
    {d.consistent_with.map((k, i) => <Alike key={i} k={k} />)}
  </section>
}

function Table({ rows, groups }: { rows: RuledOut[]; groups: Record<string, string> }) {
  let last = ''
  return <table class="elimination">
    <thead><tr><th scope="col">Group</th><th scope="col">Cause</th><th scope="col" class="n">Number</th><th scope="col">Because</th></tr></thead>
    <tbody>{rows.map(r => {
      const g = groups[r.cause] ?? 'other', first = g !== last
      last = g
      return <tr key={r.cause} class={first ? 'first' : ''} data-cause={r.cause}>
        <th scope="row">{first ? g : ''}</th><td>{r.cause}</td>
        <td class="n">{r.absent ? '' : number(r.number)}</td><td class={r.absent ? 'faint' : ''}>{r.because}</td>
      </tr>
    })}</tbody>
  </table>
}

export function Elimination({ doc: { diagnosis: d, groups } }: Props) {
  if (d.ruled_out.length === 0) return null
  const fits = d.ruled_out.filter(r => r.fits), out = d.ruled_out.filter(r => !r.fits && !r.absent), absent = d.ruled_out.filter(r => !r.fits && r.absent)
  return <section id="elimination">
    {fits.length > 0 && <><h2>Possible, but too small or too uncertain to be named</h2><Table rows={fits} groups={groups} /></>}
    {out.length > 0 && <><h2>Ruled out</h2><Table rows={out} groups={groups} /></>}
    {absent.length > 0 && <details><summary>{counted(absent.length, 'more cause')} of which there was nothing, or next to nothing</summary><Table rows={absent} groups={groups} /></details>}
  </section>
}

export function Notes({ doc: { diagnosis: d } }: Props) {
  if (!d.notes || d.notes.length === 0) return null
  return <section id="notes"><h2>Notes</h2><ul>{d.notes.map((n, i) => <li key={i}>{n}</li>)}</ul></section>
}

export function NotRecorded({ doc: { diagnosis: d } }: Props) {
  if (d.not_recorded.length === 0) return null
  return <section id="missing">
    <h2>Not recorded</h2>
    <dl>{d.not_recorded.map((n, i) => <div key={i}><dt>{n.what}</dt><dd>{n.why || 'no reason was given'}{n.command && <pre>{n.command}</pre>}</dd></div>)}</dl>
  </section>
}

export function Footer({ doc: { diagnosis: d } }: Props) {
  const parts = [
    d.cost.record_cpu > 0 && `recording ${percent(d.cost.record_cpu)} of one CPU`, // of a bare trace it is not known
    d.cost.probe_cpu && `probes in the kernel ${percent(d.cost.probe_cpu)} of one CPU`,
    `the analysis ${duration(d.cost.analyse_s * 1e9)}`,
  ].filter(Boolean)
  return <footer class="faint">
    What it cost: {parts.join(', ')}.
    {!d.lost.bytes && !d.lost.detail && ' Nothing was lost.'}
    {' '}whylate {d.tool}. This page holds everything it shows and asks no network.
  </footer>
}
