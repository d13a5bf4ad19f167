// Walks through pages in a real browser: walk.mjs CHROMIUM FOLDER. FOLDER has NAME.html, and
// beside it NAME.json, the same diagnosis as JSON. It prints a line for each thing that is not
// as it has to be, and a line with what it saw; it fails if there was one. Whole pages as
// pictures go to the folder WHYLATE_SCREENSHOTS, those for the documents to WHYLATE_PICTURES.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { chromium } from 'playwright-core'

const [executablePath, folder] = process.argv.slice(2)
const { WHYLATE_SCREENSHOTS: screenshots, WHYLATE_PICTURES: pictures } = process.env
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
let failures = 0, checks = 0, name = ''
const paints = []

function check(ok, what) {
  checks++
  if (!ok) {
    failures++
    console.log(`${name}: ${what}`)
  }
}

// nanoseconds reads what a person reads: "41.2 ms". Three digits are right to half of the last.
const units = { ns: 1, 'µs': 1e3, ms: 1e6, s: 1e9 }
function nanoseconds(text) {
  const m = /^(-?[\d.]+) (ns|µs|ms|s)$/.exec(text.trim())
  return m ? m[1] * units[m[2]] : NaN
}
const near = (got, want) => Math.abs(got - want) <= Math.abs(want) * 0.0051 + 0.51
function says(text, ns, what) { check(near(nanoseconds(text), ns), `${what}: the page says ${JSON.stringify(text)}, the diagnosis ${ns} ns`) }
function saysPercent(text, share, what) {
  const got = parseFloat(text)
  check(Math.abs(got - 100 * share) <= Math.max(0.051, Math.abs(share) >= 0.0995 ? 0.51 : 0.051), `${what}: the page says ${JSON.stringify(text)}, the diagnosis ${share}`)
}
// plain is text without what the page shows as an escape.
const plain = s => s.replace(/\s+/g, ' ').trim()

async function numbers(page, d) {
  check(plain(await page.locator('#sentence').textContent()) === plain(d.sentence) || name.startsWith('hostile'), 'the sentence is another one')
  const shown = await page.$$eval('#answer dd', list => Object.fromEntries(list.map(e => [e.dataset.key, e.textContent])))
  const r = d.requests
  check(d.requests.count === 0 || shown.requests === r.count.toLocaleString('en-US'), `requests: ${shown.requests}, ${r.count}`)
  for (const [key, ns] of [['p50', r.p50_ns], ['p90', r.p90_ns], ['p99', r.p99_ns], ['max', r.max_ns], ...(r.count >= 1000 ? [['p99.9', r.p999_ns]] : [])])
    if (r.count > 0) says(shown[key] ?? '', ns, key)
  const accounts = await page.$$eval('.account', list => list.map(a => ({
    contrast: a.dataset.contrast,
    rows: [...a.querySelectorAll('tbody tr')].map(tr => [...tr.cells].map(c => c.textContent)),
    together: a.querySelector('tfoot .n').textContent,
    widths: [...a.querySelectorAll('.bar span')].map(s => s.getBoundingClientRect().width), bar: a.querySelector('.bar').getBoundingClientRect().width,
  })))
  for (const a of accounts) {
    const sum = a.rows.reduce((n, row) => n + parseFloat(row[2]), 0)
    check(Math.abs(sum - 100) < 0.01 && a.together === '100.0 %', `the shares of ${a.contrast} add up to ${sum}, it says ${a.together}`)
    check(Math.abs(a.widths.reduce((n, w) => n + w, 0) - a.bar) < 2, `the bar of ${a.contrast} is ${a.bar} wide, its parts ${a.widths}`)
  }
  const contrast = f => f.contrast === 'level' || f.contrast === 'before' ? f.contrast : 'tail'
  for (const [i, f] of d.findings.entries()) {
    const card = page.locator('.finding').nth(i)
    saysPercent(await card.locator('h3 .faint').textContent(), f.share, f.cause)
    if (f.p99_without_ns) says(await card.locator('p strong').first().textContent(), f.p99_without_ns, `${f.cause}, p99 without it`)
    const text = plain(await card.textContent())
    if (!name.startsWith('hostile')) for (const line of [f.summary, ...f.evidence, ...f.fix, f.verify]) check(text.includes(plain(line)), `${f.cause} does not say ${JSON.stringify(line)}`)
    if (contrast(f) === 'before') continue // it is no part of the requests' own time
    const row = accounts.find(a => a.contrast === contrast(f))?.rows.find(row => row[1] === f.cause)
    check(row, `${f.cause} is in no account`)
    if (!row) continue
    check(Math.abs(parseFloat(row[2]) - 100 * f.share) <= 0.11, `${f.cause}: share ${row[2]}, in the diagnosis ${f.share}`)
    if (f.excess_ns !== 0) says(row[3], f.excess_ns, f.cause)
  }
  const eliminated = new Map(await page.$$eval('.elimination tbody tr', list => list.map(tr => [tr.dataset.cause, tr.cells[3].textContent])))
  check(eliminated.size === d.ruled_out.length, `${eliminated.size} causes ruled out, in the diagnosis ${d.ruled_out.length}`)
  if (!name.startsWith('hostile')) for (const x of d.ruled_out) check(plain(eliminated.get(x.cause) ?? '') === plain(x.because), `${x.cause} is ruled out because ${eliminated.get(x.cause)}`)
}

// recording is what a reader hears of it: what is lost first, of what nobody measured nothing.
async function recording(page, d) {
  const text = await page.locator('footer').textContent()
  check(await page.locator('#answer .lost').count() === (d.lost.bytes !== 0 || d.lost.detail ? 1 : 0), `what was lost is ${JSON.stringify(d.lost)}, the beginning of the page does not say so`)
  check(/recording [\d.]+ % of one CPU/.test(text) === d.cost.record_cpu > 0, `what recording took is ${d.cost.record_cpu}, the page says ${JSON.stringify(plain(text))}`)
}

async function requests(page, d) {
  const all = page.locator('#requests > button.link')
  if (await all.count() > 0) await all.click()
  const took = await page.$$eval('.slowest .took', list => list.map(e => [e.textContent, +e.dataset.raw]))
  check(took.every((t, i) => i === 0 || t[1] <= took[i - 1][1]), 'the slowest requests are not in order')
  for (const [text, ns] of took) says(text, ns, 'a slow request')
  if (took.length === 0) return
  check(took.length >= Math.min(20, d.requests.count), `${took.length} slow requests of ${d.requests.count}`)
  check(took[0][1] >= d.requests.max_ns * 0.999, `the slowest took ${took[0][1]} ns, in the diagnosis ${d.requests.max_ns}`)
  // Its own steps are all of its time: what the page draws of them fills the lane.
  const lanes = await page.$$eval('.waterfall:first-of-type .step[aria-level="1"] .piece', list => list.map(e => e.getBoundingClientRect().width / e.parentElement.getBoundingClientRect().width))
  const sum = lanes.reduce((n, w) => n + w, 0)
  check(sum > 0.99 && sum < 1.01 + 0.002 * lanes.length, `the steps of the slowest fill ${sum} of its time`)
}

async function keyboard(page) {
  await page.locator('body').click({ position: { x: 1, y: 300 } })
  await page.keyboard.press('Tab')
  check(await page.evaluate(() => document.activeElement !== document.body), 'Tab leads nowhere')
  const step = page.locator('.waterfall .step').first()
  if (await step.count() > 0) {
    await step.focus()
    await page.keyboard.press('End')
    const focused = () => page.evaluate(() => { const e = document.activeElement; return [[...document.querySelectorAll('.step')].indexOf(e), e.getAttribute('aria-expanded')] })
    const end = await focused()
    await page.keyboard.press('Home')
    const home = await focused()
    check(home[0] === 0 && end[0] >= 0, `Home and End lead to ${home[0]} and ${end[0]}`)
    await page.keyboard.press(home[1] === 'true' ? 'ArrowLeft' : 'ArrowRight')
    check((await focused())[1] !== home[1], 'the arrow does not open a step')
    await page.keyboard.press('Enter')
    check((await focused())[1] === home[1], 'Enter does not close a step')
    await page.keyboard.press('ArrowDown')
    const next = await focused()
    check(next[0] === 1 || await page.locator('.waterfall .step').count() === 1, `the arrow down leads to ${next[0]}`)
  }
  const buttons = page.locator('.slowest button')
  if (await buttons.count() > 1) {
    await buttons.nth(1).focus()
    await page.keyboard.press('Enter')
    check(await buttons.nth(1).getAttribute('aria-pressed') === 'true', 'Enter does not choose a request')
    const id = await buttons.nth(1).getAttribute('data-id')
    check((await page.locator('.waterfall h4').first().textContent()).includes(id), `the waterfall is not that of ${id}`)
  }
  const canvas = page.locator('.flame canvas')
  if (await canvas.count() > 0) {
    await canvas.focus()
    const before = await page.locator('#frame').textContent()
    await page.keyboard.press('ArrowDown')
    check(await page.locator('#frame').textContent() !== before, 'the arrow down does not move in the flame graph')
    await page.keyboard.press('Enter')
    check(await page.locator('#flame .tools .link').count() === 1, 'Enter does not zoom in the flame graph')
    await page.keyboard.press('Escape')
    check(await page.locator('#flame .tools .link').count() === 0, 'Escape does not show all of the flame graph')
  }
}

// contrast is that of WCAG 2.2, 1.4.3: 4.5 for text.
function contrast(a, b) {
  const light = c => {
    const [r, g, bl] = /(\d+), (\d+), (\d+)/.exec(c).slice(1).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * bl
  }
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p)
  return (x + 0.05) / (y + 0.05)
}

async function themes(page) {
  const seen = new Set()
  for (let i = 0; i < 2; i++) {
    const colours = await page.evaluate(() => ['h1', '.faint', '.verdict', 'a', 'td', '.bar span:first-child'].flatMap(s => {
      const e = document.querySelector(s)
      if (!e || getComputedStyle(e).backgroundImage !== 'none') return []
      let behind = e
      while (behind && getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement
      return [[s, getComputedStyle(e).color, getComputedStyle(behind ?? document.body).backgroundColor]]
    }))
    for (const [what, text, page] of colours) check(contrast(text, page) >= 4.5, `${what}: ${text} on ${page} has a contrast of ${contrast(text, page).toFixed(2)}`)
    seen.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor))
    const before = await page.evaluate(() => document.documentElement.dataset.theme)
    await page.locator('#theme').click()
    await page.waitForFunction(t => document.documentElement.dataset.theme !== t, before, { polling: 5, timeout: 5000 }).catch(() => check(false, 'the theme does not change'))
  }
  check(seen.size === 2, `the two themes have the colours ${[...seen]}`)
}

// drawn tells of each canvas whether something was drawn on it.
async function drawn(page) {
  const blank = await page.$$eval('canvas', list => list.filter(c => {
    if (c.width === 0 || c.height === 0) return true
    const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data
    return !p.some(v => v !== 0)
  }).length)
  check(blank === 0, `${blank} canvases are blank`)
}

// shots are the pictures that the documents show, each of a page of its own.
const shots = {
  'lock-held-across-wait.lock-held-across-wait': { picture: 'report', until: '.finding' },
  'quota-too-low.quota-too-low': { picture: 'over-time', part: '#tracks', dark: true },
  'single-worker.single-worker': { picture: 'waterfall', part: '#requests' },
}

async function shoot(page, { picture, part, until }) {
  await page.setViewportSize({ width: 1060, height: 880 })
  await page.reload()
  await page.evaluate(() => {
    document.querySelector('nav').style.position = 'static'
    for (const s of document.querySelectorAll('section')) s.style.padding = '0 1rem 1rem'
    scrollTo(0, 0) // a browser reloads a page where it was
  })
  if (until) {
    const { y, height } = await page.locator(until).first().boundingBox()
    await page.setViewportSize({ width: 1060, height: Math.ceil(y + height + 16) })
  }
  await (part ? page.locator(part) : page).screenshot({ path: join(pictures, picture + '.png') })
  delete shots[name]
}

// open makes a tab for whoever prefers a theme.
let url = ''
async function open(colorScheme) {
  const page = await (await browser.newContext({ colorScheme })).newPage()
  page.on('request', r => check(r.url() === url, `it asks for ${r.url()}`))
  page.on('console', m => check(false, `the console says ${m.text()}`))
  page.on('pageerror', e => check(false, `an error: ${e.stack}`))
  page.on('dialog', async x => { check(false, `a dialog: ${x.message()}`); await x.dismiss() })
  return page
}
const tabs = { light: await open('light'), dark: await open('dark') }

for (const file of readdirSync(folder).filter(f => f.endsWith('.html')).sort()) {
  name = file.slice(0, -5)
  const d = JSON.parse(readFileSync(join(folder, name + '.json'), 'utf8'))
  const shot = pictures && shots[name]
  const dark = pictures ? shot?.dark : paints.length % 2 === 1
  const page = dark ? tabs.dark : tabs.light
  url = pathToFileURL(join(folder, file)).href
  await page.setViewportSize({ width: 1200, height: 900 })
  await page.goto(url)
  await page.waitForSelector('#sentence', { timeout: 10_000 }).catch(() => check(false, 'there is no report'))
  paints.push(await page.evaluate(() => new Promise(done => {
    const look = () => {
      const p = performance.getEntriesByName('painted')[0]
      p ? done(p.startTime) : setTimeout(look, 5)
    }
    look()
  })))
  check(await page.evaluate(() => document.documentElement.dataset.theme) === (dark ? 'dark' : 'light'), 'the theme is not the one that the reader prefers')
  check(await page.locator('img, iframe, object, embed, script[src], link').count() === 0, 'the page holds elements of somebody else')
  await numbers(page, d)
  await recording(page, d)
  await requests(page, d)
  await drawn(page)
  if (screenshots) await page.screenshot({ path: join(screenshots, `${name}-${dark ? 'dark' : 'light'}.png`), fullPage: true })
  if (shot) await shoot(page, shot)
  await keyboard(page)
  await themes(page)
  await page.setViewportSize({ width: 375, height: 700 })
  const wide = await page.evaluate(() => document.documentElement.scrollWidth)
  check(wide <= 375, `on a phone of 375 columns it is ${wide} wide`)
  await page.waitForFunction(() => [...document.querySelectorAll('canvas')].every(c => c.getBoundingClientRect().width <= 375), null, { timeout: 10_000 })
    .catch(() => check(false, 'its charts do not become as narrow as a phone'))
  if (screenshots) await page.screenshot({ path: join(screenshots, `${name}-phone.png`) })
}
await browser.close()
if (pictures) check(Object.keys(shots).length === 0, `no picture was made of ${Object.keys(shots)}`)
paints.sort((a, b) => a - b)
console.log(`${paints.length} pages, ${checks} checks, ${failures} failures; painted after ${paints[paints.length >> 1]?.toFixed(0)} ms, ${paints.at(-1)?.toFixed(0)} ms at most`)
process.exit(failures > 0 || paints.length === 0 ? 1 : 0)
