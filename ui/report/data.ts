// What the page was made of: the document of report/html.go. Everything in it may come from
// a target that means harm: it is text and numbers, nothing else.

export interface Place { function: string; file?: string; line?: number }
export interface Finding {
  cause: string; contrast?: string; share: number; share_low?: number | null; share_high?: number | null
  confidence?: string; pattern?: string; excess_ns: number; p99_without_ns?: number
  via?: string[]; where?: Place | null; summary?: string; evidence: string[]; fix: string[]
  verify?: string; examples?: string[]
}
export interface Consistent {
  causes: string[]; share: number; record?: string; summary?: string; evidence?: string[]; where?: Place | null
}
export interface RuledOut { cause: string; because: string; number: number; fits?: boolean; absent?: boolean }
export interface Band { count: number; episodes?: number; mean_ns: number }
export interface Class { class: string; count: number; p99_ns?: number }
export interface HeatMap { from_ns: number; step_ns: number; columns: (number[] | null)[] }
export interface Diagnosis {
  tool: string; started: string; duration_ns: number
  verdict: string; reason: string; sentence: string
  target: { kind?: string; url?: string; file?: string; pid?: number; go?: string; gomaxprocs?: number }
  requests: {
    found_by: string; clock: string; count: number
    p50_ns: number; p90_ns: number; p99_ns: number; p999_ns: number; max_ns: number
    tail: Band; typical: Band; in_flight: number; oldest_in_flight_ns: number; arrival_ns: number
    classes: Class[]; excluded: Class[]; endpoints?: Endpoint[]
  }
  excess_ns: number
  mix: { share: number; endpoint: string }
  level?: { median_ns: number; wait_share: number; against: string; excess_ns: number }
  findings: Finding[]; consistent_with: Consistent[]; ruled_out: RuledOut[]
  not_recorded: { what: string; why: string; command: string }[]
  notes?: string[]
  lost: { bytes: number; detail?: string }
  cost: { record_cpu: number; probe_cpu?: number; analyse_s: number }
  kernel?: { run_queue?: HeatMap }
}

export interface Endpoint { endpoint: string; count: number; slow: number; presumed?: number; p50_ns: number; p99_ns: number; max_ns: number }
export interface Row { kind: 'named' | 'consistent' | 'rest'; mark: string; label: string; tenths: number; excess_ns: number; interval: string }
export interface Account { contrast: string; excess_ns: number; rows: Row[] | null }
export interface Leaf { kind: string; text: string; cause?: string; stack: number; excess: number; typical: number }
export interface Frame { f: string; p?: string; l?: number }
export interface Step {
  d: number; g: number; root?: string; from: number; to: number; state: string
  stack: number; where?: string; call?: string; waker?: number; pieces?: [number, number][]; several?: number
}
export interface Path {
  id: string; endpoint: string; g: number; start: number; took: number; band: string; open?: boolean; unseen?: boolean
  pieces: [number, number][]; steps: Step[]
}
export interface Spans { name: string; from: number[]; to: number[]; what?: string[]; cut?: number }
export interface Series { name: string; unit: string; values: number[] }
export interface Document {
  diagnosis: Diagnosis
  accounts: Account[]
  groups: Record<string, string>
  whole: boolean
  start_ns: number
  points: { of: number; id: number[]; start: number[]; took: number[]; band: number[]; endpoint: number[] } | null
  histogram: { edges: number[]; neither: number[]; typical: number[]; tail: number[] } | null
  endpoints: string[]
  leaves: Leaf[]; frames: Frame[]; stacks: number[][]
  slowest: Path[]; usual: Path[]
  spans: Spans[]; series: Series[]; edges: number[]
}

const longest = 2000

// clean shows what cannot be seen: control characters, and those that turn the direction of
// writing or have no width, so that no name looks like another one.
export function clean(s: string): string {
  if (s.length > longest) s = s.slice(0, longest) + '…'
  return s.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu, c =>
    c === '\n' || c === '\t' ? ' ' : `\\u{${c.codePointAt(0)!.toString(16)}}`)
}

// load reads the document; every text in it is cleaned here, once, and shown as text only.
export function load(): Document {
  return JSON.parse(document.getElementById('data')!.textContent!, (_, v: unknown) => typeof v === 'string' ? clean(v) : v) as Document
}
