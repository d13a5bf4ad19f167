// How long requests took, and what happened when, on uPlot.
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { Document, Endpoint, HeatMap } from './data'
import { count, counted, duration } from './format'

// left is the width of the values' axis: the same everywhere, so that tracks are aligned.
const left = 72, right = 12

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()

type Labels = Pick<uPlot.Axis, 'splits' | 'values' | 'filter' | 'space'>

function axes(y: Labels, x: Labels, last: boolean): uPlot.Axis[] {
  const stroke = colour('faint'), line = { stroke: colour('line'), width: 1 }
  const font = '12px system-ui, sans-serif'
  return [
    { stroke, grid: line, ticks: line, font, ...x, size: last ? 30 : 6, show: last },
    { stroke, grid: line, ticks: line, font, ...y, size: left },
  ]
}

// useChart makes a chart as wide as the page, and anew when that, or the theme, changes.
function useChart(make: (width: number) => uPlot.Options | null, data: () => uPlot.AlignedData, parent: { current: HTMLDivElement | null }, deps: unknown[], ready?: (u: uPlot) => () => void) {
  useEffect(() => {
    const el = parent.current
    if (!el) return
    let width = el.clientWidth
    const options = make(width)
    if (!options) return
    const u = new uPlot({ ...options, width }, data(), el)
    const done = ready?.(u)
    const watch = new ResizeObserver(() => {
      if (el.clientWidth !== width && el.clientWidth > 0) {
        width = el.clientWidth
        u.setSize({ width, height: options.height })
      }
    })
    watch.observe(el)
    return () => { watch.disconnect(); done?.(); u.destroy() }
  }, deps)
}

// decades are the places and labels of a logarithmic axis: 1, 2 and 5 of each power of ten,
// or 1 alone if there are many.
const decades: Labels = {
  filter: (_, v) => v,
  splits: (_u, _i, min, max) => {
    const list: number[] = [], wide = Math.log10(max / min) > 2.5
    for (let k = Math.floor(Math.log10(min)); k <= Math.log10(max); k++)
      for (const n of wide ? [1] : [1, 2, 5]) if (n * 10 ** k >= min * 0.999 && n * 10 ** k <= max * 1.001) list.push(n * 10 ** k)
    return list
  },
  values: (_, v) => v.map(x => duration(x).replace(/\.0+ /, ' ')),
}

const bands = [['tail', 'tail'], ['typical', 'typical'], ['neither', 'neither']] as const

export function Latency({ doc, theme }: { doc: Document; theme: string }) {
  const div = useRef<HTMLDivElement>(null)
  const h = doc.histogram
  const highest = h ? h.tail.reduce((n, t, i) => Math.max(n, t + h.typical[i]! + h.neither[i]!), 1) : 1
  useChart(width => h && {
    width, height: 220, legend: { show: false }, padding: [8, right, 0, 0],
    scales: { x: { time: false, distr: 3, range: [h.edges[0]!, h.edges[h.edges.length - 1]!] }, y: { range: [0, highest * 1.05] } },
    axes: axes({ values: (_, v) => v.map(n => Number.isInteger(n) ? count(n) : '') }, decades, true),
    series: [{}, { show: false }],
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    hooks: {
      draw: [u => {
        // Columns lie between edges; the bands stand on each other.
        u.ctx.save()
        for (let i = 0; i + 1 < h.edges.length; i++) {
          const a = u.valToPos(h.edges[i]!, 'x', true), b = u.valToPos(h.edges[i + 1]!, 'x', true)
          let below = 0
          for (const [key, name] of bands) {
            const n = h[key][i]!
            if (n === 0) continue
            const y0 = u.valToPos(below, 'y', true)
            const y1 = Math.min(u.valToPos(below + n, 'y', true), y0 - 2 * devicePixelRatio)
            u.ctx.fillStyle = colour(name)
            u.ctx.fillRect(a, y1, Math.max(1, b - a - 1), y0 - y1)
            below += n
          }
        }
        u.ctx.restore()
      }],
    },
  }, () => [h!.edges, h!.edges.map(() => null)], div, [theme])
  if (!h) return null
  return <section id="latency">
    <h2>How long requests took</h2>
    <p class="legend"><span class="key tail" /> the slow ones (tail) <span class="key typical" /> typical <span class="key neither" /> neither</p>
    <div ref={div} class="chart" role="img" aria-label={`Histogram of latency from ${duration(h.edges[0]!)} to ${duration(h.edges[h.edges.length - 1]!)}`} />
    <details><summary>As a table</summary><div class="scroll"><table>
      <thead><tr><th scope="col">From</th><th scope="col">To</th><th scope="col" class="n">Tail</th><th scope="col" class="n">Typical</th><th scope="col" class="n">Neither</th></tr></thead>
      <tbody>{h.edges.slice(0, -1).map((e, i) => h.tail[i]! + h.typical[i]! + h.neither[i]! > 0 && <tr key={i}><td>{duration(e)}</td><td>{duration(h.edges[i + 1]!)}</td>
        <td class="n">{count(h.tail[i]!)}</td><td class="n">{count(h.typical[i]!)}</td><td class="n">{count(h.neither[i]!)}</td></tr>)}</tbody>
    </table></div></details>
    <Endpoints all={doc.diagnosis.requests.endpoints ?? []} />
  </section>
}

// Endpoints is a table of what the requests are of, if they are of several.
function Endpoints({ all }: { all: Endpoint[] }) {
  if (all.length === 0) return null
  const presumed = all.reduce((n, e) => n + (e.presumed ?? 0), 0)
  return <>
    <h3>By endpoint</h3>
    <div class="scroll"><table>
      <thead><tr><th scope="col">Endpoint</th><th scope="col" class="n">Slow</th><th scope="col" class="n">Requests</th><th scope="col" class="n">p50</th><th scope="col" class="n">p99</th><th scope="col" class="n">Longest</th></tr></thead>
      <tbody>{all.map((e, i) => <tr key={i}><td>{e.endpoint}</td><td class="n">{count(e.slow)}</td><td class="n">{count(e.count)}</td>
        <td class="n">{duration(e.p50_ns)}</td><td class="n">{duration(e.p99_ns)}</td><td class="n">{duration(e.max_ns)}</td></tr>)}</tbody>
    </table></div>
    {presumed > 0 && <p class="faint">The endpoint of {counted(presumed, 'request')} is presumed, from how long they took: the trace shows nothing that their handlers did.</p>}
  </>
}

// A Group shows one stretch of time on several charts.
class Group {
  private charts = new Set<uPlot>()
  private busy = false
  constructor(readonly key: string) {}
  add(u: uPlot) { this.charts.add(u); return () => { this.charts.delete(u) } }
  zoom(from: uPlot) {
    if (this.busy) return
    this.busy = true
    const { min, max } = from.scales['x']!
    for (const u of this.charts) if (u !== from && min != null && max != null) u.setScale('x', { min, max })
    this.busy = false
  }
}

const common = (group: Group, seconds: number, width: number, height: number): Pick<uPlot.Options, 'width' | 'height' | 'legend' | 'padding' | 'cursor' | 'scales' | 'hooks'> => ({
  width, height, legend: { show: false }, padding: [8, right, 8, 0],
  cursor: { sync: { key: group.key, scales: ['x', null] }, drag: { x: true, y: false }, y: false, points: { show: false } },
  scales: { x: { time: false, range: (_, min, max) => [Math.max(0, min ?? 0), Math.min(seconds, max ?? seconds)] } },
  hooks: { setScale: [(u, key) => { if (key === 'x') group.zoom(u) }] },
})

const time: Labels = { values: (_, v) => v.map(x => +x.toPrecision(6) + ' s') }

function Scatter({ doc, theme, group, show }: { doc: Document; theme: string; group: Group; show: (id: string) => void }) {
  const div = useRef<HTMLDivElement>(null)
  const p = doc.points!, seconds = doc.diagnosis.duration_ns / 1e9
  useChart(width => {
    const o = common(group, seconds, width, 240)
    const points = (name: string, size: number): uPlot.Series => ({
      paths: () => null, points: { show: true, size, width: 0, fill: colour(name), stroke: colour(name) },
    })
    return {
      ...o, scales: { ...o.scales, y: { distr: 3 } },
      axes: axes(decades, time, doc.spans.length + doc.series.length === 0),
      series: [{}, points('neither', 4), points('typical', 4), points('tail', 6)],
    }
  }, () => {
    const of = (band: number) => p.took.map((ns, i) => p.band[i] === band ? Math.max(1, ns) : null)
    return [p.start.map(ns => ns / 1e9), of(0), of(1), of(2)]
  }, div, [theme], u => {
    const click = () => {
      const i = u.cursor.idx
      if (i != null) show('r' + p.id[i])
    }
    u.over.addEventListener('click', click)
    const leave = group.add(u)
    return leave
  })
  const shown = p.took.length
  return <figure>
    <figcaption>Requests by when they began and how long they took{shown < p.of && `: ${count(shown)} of ${count(p.of)}, all slow ones as far as they have room`}</figcaption>
    <div ref={div} class="chart" role="img" aria-label="Each request as a point: its beginning and its duration" />
  </figure>
}

// Bars are spans of time, one row.
function Bars({ doc, i, theme, group, last }: { doc: Document; i: number; theme: string; group: Group; last: boolean }) {
  const div = useRef<HTMLDivElement>(null)
  const s = doc.spans[i]!, seconds = doc.diagnosis.duration_ns / 1e9
  useChart(width => {
    const o = common(group, seconds, width, last ? 58 : 30)
    return {
      ...o, scales: { ...o.scales, y: { range: [0, 1] } },
      axes: axes({ values: (_, v) => v.map(() => '') }, time, last), series: [{}, { show: false }],
      hooks: {
        ...o.hooks, draw: [u => {
          u.ctx.save()
          u.ctx.fillStyle = colour('bars')
          const { left: x, top: y, width: w, height: h } = u.bbox
          for (let k = 0; k < s.from.length; k++) {
            const a = Math.max(x, u.valToPos(s.from[k]! / 1e9, 'x', true)), b = Math.min(x + w, u.valToPos(s.to[k]! / 1e9, 'x', true))
            if (b >= x && a <= x + w) u.ctx.fillRect(a, y + 2, Math.max(devicePixelRatio, b - a), h - 4)
          }
          u.ctx.restore()
        }],
      },
    }
  }, () => [[0, seconds], [0, 0]], div, [theme], u => group.add(u))
  const sum = s.from.reduce((n, from, k) => n + s.to[k]! - from, 0)
  return <figure>
    <figcaption>{s.name}: {count(s.from.length + (s.cut ?? 0))} times{s.cut ? `, the first ${count(s.from.length)} of them` : ''}, {duration(sum)} together</figcaption>
    <div ref={div} class="chart" role="img" aria-label={`${s.name}, ${count(s.from.length)} times`} />
  </figure>
}

function Line({ doc, i, theme, group, last }: { doc: Document; i: number; theme: string; group: Group; last: boolean }) {
  const div = useRef<HTMLDivElement>(null)
  const s = doc.series[i]!, seconds = doc.diagnosis.duration_ns / 1e9
  const most = s.values.reduce((a, b) => Math.max(a, b), 0)
  useChart(width => {
    const o = common(group, seconds, width, last ? 98 : 70)
    return {
      ...o, scales: { ...o.scales, y: { range: (_, __, max) => [0, s.unit === 'share' ? 1 : Math.max(max, 0.1) * 1.1] } },
      axes: axes({ space: 20, values: (_, v) => v.map(x => s.unit === 'share' ? `${Math.round(100 * x)} %` : String(+x.toPrecision(3))) }, time, last),
      series: [{}, { stroke: colour('line-of-series'), fill: colour('under-series'), width: 1, points: { show: false }, paths: uPlot.paths.stepped!({ align: 1 }) }],
    }
  }, () => {
    const v = s.values
    return [doc.edges.map(ns => ns / 1e9), [...v, v[v.length - 1] ?? 0]]
  }, div, [theme], u => group.add(u))
  return <figure>
    <figcaption>{s.name}, at most {s.unit === 'share' ? `${(100 * most).toFixed(0)} % of the time` : `${+most.toPrecision(3)} ${s.unit}`}</figcaption>
    <div ref={div} class="chart" role="img" aria-label={`${s.name} over time`} />
  </figure>
}

// Heat is how long threads wanted a CPU: a column is a moment, a row twice the wait of the one below.
function Heat({ doc, map, theme, group, last }: { doc: Document; map: HeatMap; theme: string; group: Group; last: boolean }) {
  const div = useRef<HTMLDivElement>(null)
  const seconds = doc.diagnosis.duration_ns / 1e9
  const first = 10, rows = Math.max(first + 1, ...map.columns.map(c => c?.length ?? 0))
  const most = Math.max(1, ...map.columns.flatMap(c => (c ?? []).slice(first)))
  useChart(width => {
    const o = common(group, seconds, width, last ? 138 : 110)
    return {
      ...o, scales: { ...o.scales, y: { range: [first, rows] } },
      axes: axes({ values: (_, v) => v.map(k => Number.isInteger(k) ? duration(2 ** k) : '') }, time, last), series: [{}, { show: false }],
      hooks: {
        ...o.hooks, draw: [u => {
          u.ctx.save()
          u.ctx.beginPath()
          u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height)
          u.ctx.clip()
          u.ctx.fillStyle = colour('bars')
          map.columns.forEach((column, i) => {
            const at = (map.from_ns - doc.start_ns + i * map.step_ns) / 1e9
            const a = u.valToPos(at, 'x', true), b = u.valToPos(at + map.step_ns / 1e9, 'x', true)
            column?.forEach((n, k) => {
              if (n === 0 || k < first) return
              const y1 = u.valToPos(k + 1, 'y', true), y0 = u.valToPos(k, 'y', true)
              u.ctx.globalAlpha = 0.15 + 0.85 * Math.log(1 + n) / Math.log(1 + most)
              u.ctx.fillRect(a, y1, Math.max(1, b - a), y0 - y1)
            })
          })
          u.ctx.restore()
        }],
      },
    }
  }, () => [[0, seconds], [first, first]], div, [theme], u => group.add(u))
  return <figure>
    <figcaption>how long threads that were ready to run waited for a CPU</figcaption>
    <div ref={div} class="chart" role="img" aria-label="Waits for a CPU over time" />
  </figure>
}

export function Tracks({ doc, theme, show }: { doc: Document; theme: string; show: (id: string) => void }) {
  const group = useRef(new Group('tracks')).current
  if (!doc.points) return null
  const map = doc.diagnosis.kernel?.run_queue
  const rows = doc.spans.length + doc.series.length
  return <section id="tracks">
    <h2>Over the recording</h2>
    <p class="legend"><span class="key tail" /> the slow ones (tail) <span class="key typical" /> typical <span class="key neither" /> neither. Drag to zoom, double click to see all, click a slow request to see its waits.</p>
    <Scatter doc={doc} theme={theme} group={group} show={show} />
    {map && map.columns.length > 0 && <Heat doc={doc} map={map} theme={theme} group={group} last={rows === 0} />}
    {doc.spans.map((s, i) => <Bars key={s.name} doc={doc} i={i} theme={theme} group={group} last={i === rows - 1} />)}
    {doc.series.map((s, i) => <Line key={s.name} doc={doc} i={i} theme={theme} group={group} last={doc.spans.length + i === rows - 1} />)}
  </section>
}
