import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { load, type Document } from './data'
import { Answer, Elimination, Findings, Footer, NotRecorded, Notes, Shares } from './verdict'
import { Latency, Tracks } from './charts'
import { Requests } from './waterfall'
import { Flame } from './flame'
import './style.css'

type Theme = 'light' | 'dark'

const preferred = (): Theme => matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'

function Page({ doc }: { doc: Document }) {
  const [theme, setTheme] = useState<Theme>(preferred)
  const [selected, select] = useState(0)
  useEffect(() => { document.documentElement.dataset.theme = theme }, [theme])
  useEffect(() => {
    const query = matchMedia('(prefers-color-scheme: dark)')
    const follow = () => setTheme(preferred())
    query.addEventListener('change', follow)
    return () => query.removeEventListener('change', follow)
  }, [])
  // A request that is chosen elsewhere is shown where its waits are.
  const show = (id: string) => {
    const i = doc.slowest.findIndex(p => p.id === id)
    if (i < 0) return
    select(i)
    document.getElementById('requests')!.scrollIntoView()
  }
  const parts: [string, string, boolean][] = [
    ['shares', 'Shares', doc.accounts.length > 0], ['findings', 'Causes', doc.diagnosis.findings.length + doc.diagnosis.consistent_with.length > 0],
    ['latency', 'Latency', doc.histogram !== null], ['tracks', 'Over time', doc.points !== null],
    ['requests', 'Slowest requests', doc.slowest.length > 0], ['flame', 'Flame graph', doc.leaves.length > 0],
    ['elimination', 'Ruled out', doc.diagnosis.ruled_out.length > 0], ['missing', 'Not recorded', doc.diagnosis.not_recorded.length > 0],
  ]
  return <>
    <nav aria-label="Parts of the report">
      <a href="#answer" class="brand">whylate</a>
      {parts.filter(p => p[2]).map(p => <a key={p[0]} href={'#' + p[0]}>{p[1]}</a>)}
      <button type="button" id="theme" aria-pressed={theme === 'dark'} onClick={() => setTheme(theme === 'dark' ? 'light' : 'dark')}>
        {theme === 'dark' ? 'Light' : 'Dark'}
      </button>
    </nav>
    <main>
      <Answer doc={doc} />
      <Shares doc={doc} />
      <Findings doc={doc} show={show} />
      <Latency doc={doc} theme={theme} />
      <Tracks doc={doc} theme={theme} show={show} />
      <Requests doc={doc} selected={selected} select={select} />
      <Flame doc={doc} theme={theme} />
      <Elimination doc={doc} />
      <Notes doc={doc} />
      <NotRecorded doc={doc} />
      <Footer doc={doc} />
    </main>
  </>
}

const root = document.getElementById('page')!
root.textContent = ''
document.documentElement.dataset.theme = preferred()
render(<Page doc={load()} />, root)
// What was rendered, the charts too, is on the screen two frames later.
requestAnimationFrame(() => requestAnimationFrame(() => performance.mark('painted')))
