// Numbers as the terminal report writes them (report/quantity.go).

function digits(v: number): string {
  const a = Math.abs(v)
  return v.toFixed(a >= 99.95 ? 0 : a >= 9.995 ? 1 : 2)
}

export function duration(ns: number): string {
  const a = Math.abs(ns)
  if (a === 0) return '0 ms'
  if (a < 1e3) return `${Math.round(ns)} ns`
  if (a < 999.5e3) return digits(ns / 1e3) + ' µs'
  if (a < 999.5e6) return digits(ns / 1e6) + ' ms'
  return digits(ns / 1e9) + ' s'
}

export function count(n: number): string {
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ',')
}

export function counted(n: number, noun: string): string {
  return `${count(n)} ${noun}${n === 1 ? '' : 's'}`
}

export function percent(ratio: number): string {
  const p = ratio * 100, a = Math.abs(p)
  if (a >= 10 || p === 0) return p.toFixed(0) + ' %'
  if (a >= 0.1) return p.toFixed(1) + ' %'
  return p.toPrecision(2) + ' %'
}

export function number(v: number): string {
  const a = Math.abs(v)
  if (a >= 1e6) return v.toExponential(0)
  if (a >= 1e3) return count(v)
  if (v !== 0 && a < 0.0005) return '<0.001'
  return String(Math.round(v * 1000) / 1000)
}

export const tenths = (n: number): string => (n / 10).toFixed(1) + ' %'

// base is the last part of a file's path, with the folder it is in.
export function base(file: string): string {
  return file.split('/').slice(-2).join('/')
}

// shortName is a function without the path of its package.
export function shortName(f: string): string {
  return f.slice(f.lastIndexOf('/') + 1)
}
