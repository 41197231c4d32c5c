'use strict'
// All that a server has told goes into the page as text nodes: keys are content of somebody's database.
const $ = id => document.getElementById(id)
const SVG = 'http://www.w3.org/2000/svg'
function make(space, tag, attributes, kids) {
  const node = space ? document.createElementNS(space, tag) : document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value)
  node.append(...kids.flat(9).filter(kid => kid !== null && kid !== undefined && kid !== '').map(kid => kid instanceof Node ? kid : String(kid)))
  return node
}
const h = (tag, attributes, ...kids) => make(null, tag, attributes, kids)
const s = (tag, attributes, ...kids) => make(SVG, tag, attributes, kids)

// A look changes texts and attributes in place, so that neither focus nor an open detail is lost.
function merge(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh)
  if (old.nodeType === Node.TEXT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== 'open') old.removeAttribute(name)
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value)
  mergeKids(old, [...fresh.childNodes])
}
function mergeKids(parent, fresh) {
  const old = [...parent.childNodes]
  fresh.forEach((kid, i) => i < old.length ? merge(old[i], kid) : parent.append(kid))
  old.slice(fresh.length).forEach(kid => kid.remove())
}
const put = (id, ...kids) => mergeKids($(id), [...h('div', {}, kids).childNodes])

const SHAPES = { // the shape differs, not only the colour
  ok: ['M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z', 'M5 8.2l2.1 2.1L11.2 6'],
  warn: ['M8 1.8 15 14H1z', 'M8 6.3v3.5M8 11.7v.1'],
  bad: ['M5.3 1.5h5.4l3.8 3.8v5.4l-3.8 3.8H5.3L1.5 10.7V5.3z', 'M4.8 8h6.4'],
}
SHAPES.unknown = SHAPES.warn
const shape = state => s('svg', { class: state, viewBox: '0 0 16 16', 'aria-hidden': 'true', fill: 'none', stroke: 'currentColor', 'stroke-width': 1.4 }, SHAPES[state].map(d => s('path', { d })))
const word = (state, text) => h('span', { class: 'state ' + state }, shape(state), text)
const known = (value, unit = '', digits = 0) => value === null || value === undefined ? '–' : value.toLocaleString('en-US', { maximumFractionDigits: digits }) + unit
const mebibytes = bytes => bytes === null || bytes === undefined ? '–' : known(bytes / 2 ** 20, ' MiB', 1)
const clock = at => at ? at.slice(11, 19) : '–'
const stateOf = zone => zone.can_commit === true ? 'ok' : zone.can_commit === false ? (['blocked', 'failed'].includes(zone.state) ? 'bad' : 'warn') : zone.state === 'connected' ? 'ok' : 'unknown'
const total = numbers => numbers.every(n => n === null) ? null : numbers.reduce((a, b) => a + (b ?? 0), 0)
const most = (zones, what) => zones.filter(zone => zone[what] !== null).sort((a, b) => b[what] - a[what])[0]
const keeper = () => { const one = most(view.zones, 'keeps_bytes'); return one?.keeps_bytes ? one.name + ', ' + mebibytes(one.keeps_bytes) : 'nobody' }
const short = text => text.length > 300 ? text.slice(0, 299) + '…' : text
const counts = who => Object.entries(who).map(([name, count]) => name + ' ' + known(count)).join(', ')

const chosen = name => document.querySelector(`input[name=${name}]:checked`).value
const ms = value => known(value, ' ms', 1)

// The way is measured both ways together; what is drawn are halves of it.
const PARTS = [['check', 'local check'], ['there', 'way to the primary'], ['parked', 'parked'], ['queue', 'queue'], ['certify', 'certification'], ['back', 'way back'], ['answer', 'answer']]
function partsOf(zone, beyond) {
  if (zone.commit_ms === null) return null
  const distance = beyond ? Math.min(zone.network_ms, zone.rtt_ms ?? 0) : 0, way = (zone.network_ms - distance) / 2
  return { check: zone.check_ms, there: way, parked: zone.parked_ms, queue: zone.queue_ms, certify: zone.certify_ms, back: way, answer: zone.answer_ms, whole: zone.commit_ms - distance, p99: beyond ? null : zone.commit_p99_ms }
}
const SAMPLES = 120
let view = null, paused = false, lastAt = 0, stale = false

function command(text) {
  const button = h('button', { type: 'button', 'data-copy': text, 'aria-label': 'Copy: ' + text }, 'Copy')
  return h('div', { class: 'cmd' }, h('pre', {}, text), button)
}
document.addEventListener('click', event => {
  const text = event.target.dataset?.copy
  if (text !== undefined) navigator.clipboard?.writeText(text).then(() => { $('say').textContent = 'Copied' }, () => { $('say').textContent = 'Not copied' })
})

function showAnswer() {
  const told = stale ? { state: 'unknown', sentence: 'This page hears nothing.', detail: 'What stands below is old. Does psp console still run?' } : view.headline
  if ($('answer').textContent !== told.sentence) ($(told.state === 'bad' ? 'shout' : 'say')).textContent = told.sentence
  document.documentElement.dataset.state = told.state
  document.title = told.sentence + ' psp console'
  put('shape', shape(told.state)); put('answer', told.sentence); put('detail', told.detail)
  put('chips', view.zones.map(zone => h('li', {}, word(stateOf(zone), zone.name + ' ' + zone.state))))
  put('todo', view.advice.length ? view.advice.map(one => h('li', {}, h('b', {}, one.title + (one.title.endsWith('?') ? ' ' : '. ')), one.text, one.command ? command(one.command) : '')) : h('li', { class: 'none' }, 'Nothing needs you.'))
}
function showFigures() {
  const zones = view.zones, far = most(zones, 'rtt_ms'), late = most(zones, 'lag_ms'), slow = most(zones, 'commit_ms')
  const figure = (label, value, more) => h('div', {}, h('dt', {}, label), h('dd', { class: 'value' }, value), h('dd', {}, more))
  put('figures',
    figure('Commits', known(total(zones.map(z => z.commits_per_s)), ' /s', 1), known(total(zones.map(z => z.waiting))) + ' wait'),
    figure('Lost to conflicts', known(total(zones.map(z => z.losses_per_s)), ' /s', 1), 'of ' + zones.filter(z => z.answers).length + ' that answer'),
    slow ? figure('Slowest COMMIT', ms(slow.commit_ms), slow.name + (slow.rtt_ms === null ? '' : ', ' + ms(slow.rtt_ms) + ' away')) : figure('Farthest', far ? ms(far.rtt_ms) : '–', far ? far.name : 'nobody tells'),
    figure('Furthest behind', late ? known(late.lag_ms, ' ms') : '–', late ? late.name : 'nobody tells'),
    figure('Log at the primary', mebibytes(view.primary?.log_bytes), view.primary ? 'from ' + known(view.primary.log_begins_t) + ' on' : 'the primary was not asked'))
}
function spark(zone) {
  const values = view.rates[zone.name] ?? [0], top = Math.max(1, ...values)
  const points = values.map((value, i) => (110 - (values.length - 1 - i) * 110 / SAMPLES).toFixed(1) + ' ' + (21 - value / top * 20).toFixed(1))
  return s('svg', { class: 'spark', viewBox: '0 0 110 22', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, s('path', { d: 'M' + points.join('L') }))
}
// 1, 2, 2.5 or 5 times a power of ten, five of which make the axis.
function axisStep(top) {
  const power = 10 ** Math.floor(Math.log10(Math.max(top, .05) / 5))
  return [1, 2, 2.5, 5, 10].find(n => n * power * 5 >= top) * power
}
function bar(parts, top) {
  let x = 0
  const ticks = [0, 20, 40, 60, 80].map(at => s('line', { x1: at + '%', x2: at + '%', y1: 0, y2: 16 }))
  const slow = parts.p99 === null ? null : (Math.min(parts.p99 / top, 1) * 100).toFixed(3) + '%'
  const text = 'COMMIT ' + ms(parts.whole) + ': ' + PARTS.map(([name, label]) => label + ' ' + ms(parts[name])).join(', ') + (parts.p99 === null ? '' : '; 99 of 100 within ' + ms(parts.p99))
  return s('svg', { class: 'bar', role: 'img', 'aria-label': text }, ticks, PARTS.map(([name]) => {
    const width = parts[name] / top * 100, from = x
    x += width
    return s('rect', { class: name === 'answer' ? 'answer-part' : name, x: from.toFixed(3) + '%', width: width.toFixed(3) + '%', height: 16 })
  }), slow ? s('line', { class: 'p99', x1: slow, x2: slow, y1: 0, y2: 16 }) : '')
}
function showLegend() {
  put('legend', PARTS.map(([name, label]) => h('li', {}, s('svg', { viewBox: '0 0 11 11', 'aria-hidden': 'true' }, s('rect', { class: name === 'answer' ? 'answer-part' : name, width: 11, height: 11, rx: 2 })), label)), h('li', {}, s('svg', { viewBox: '0 0 11 11', 'aria-hidden': 'true' }, s('line', { class: 'p99', x1: 5, x2: 5, y1: 0, y2: 11 })), 'p99'))
}
function commitCell(zone, parts, top) {
  if (!parts) return h('td', { class: 'bars-cell', 'data-label': 'COMMIT' }, h('div', { class: 'soft' }, zone.answers ? 'nothing was decided in the last minute' : '–'))
  return h('td', { class: 'bars-cell', 'data-label': 'COMMIT' }, h('b', {}, ms(parts.whole)), parts.p99 === null ? '' : h('span', { class: 'soft' }, ' p99 ' + ms(parts.p99)), bar(parts, top), h('div', { class: 'soft' }, zone.commit_cause))
}
function showZones() {
  const beyond = chosen('scale') === 'beyond', parts = view.zones.map(zone => partsOf(zone, beyond))
  const step = axisStep(Math.max(0, ...parts.map(one => Math.max(one?.whole ?? 0, one?.p99 ?? 0))))
  $('axis').classList.toggle('blank', !parts.some(one => one))
  $('axis').replaceChildren(...[0, 1, 2, 3, 4, 5].map(n => s('text', { x: n * 20 + '%', y: 12 }, known(n * step, n === 5 ? ' ms' : '', 2))))
  showLegend()
  const cell = (label, ...kids) => h('td', { 'data-label': label }, kids)
  const fact = (name, value) => value === null || value === '' ? null : h('div', {}, h('dt', {}, name), h('dd', {}, value))
  put('zone-rows', view.zones.map((zone, i) => h('tr', { class: 'zone' },
    h('th', { scope: 'row' }, h('details', {}, h('summary', {}, zone.name), h('dl', { class: 'facts' },
      fact('zone', zone.place), fact('watermark', known(zone.watermark)), fact('closed_t', known(zone.closed_t)), fact('behind', known(zone.lag_transactions ?? zone.behind)),
      fact('commits', known(zone.commits_total)), fact('aborts', known(zone.aborts_total)), fact('losses', known(zone.losses_total)), fact('waiting', known(zone.waiting)), PARTS.filter(([name]) => parts[i] && name !== 'back').map(([name, label]) => fact(name === 'there' ? 'way, both ways' : label, ms(name === 'there' ? parts[i].there * 2 : parts[i][name]))), fact('reserved', zone.reserved), fact('last_error', zone.last_error), fact('warnings', zone.warnings))),
    word(stateOf(zone), zone.state), zone.blockers.map(b => h('div', { class: 'soft' }, 'waits for session ' + b.pid + ' of ' + (b.role ?? '?')))),
    cell('Round trip', known(zone.rtt_ms, ' ms', 1)), cell('Commits/s', known(zone.commits_per_s, '', 1), spark(zone)),
    commitCell(zone, parts[i], step * 5), cell('Lag', known(zone.lag_ms, ' ms')), cell('Lost/s', known(zone.losses_per_s, '', 1)))))
}
// The radius is the square root of the round trip, so that 30 and 190 ms both have room.
function showRing() {
  const zones = view.zones, top = Math.max(10, ...zones.map(zone => zone.rtt_ms ?? 0)), middle = [150, 125]
  const radius = rtt => 26 + 72 * Math.sqrt((rtt ?? top) / top)
  const orbits = [top / 4, top].map(rtt => [s('circle', { class: 'orbit', cx: middle[0], cy: middle[1], r: radius(rtt).toFixed(1) }), s('text', { class: 'soft', x: middle[0], y: (middle[1] - radius(rtt) - 3).toFixed(1) }, known(rtt, ' ms'))])
  const nodes = zones.map((zone, i) => {
    const angle = (i + .5) / zones.length * 2 * Math.PI - Math.PI / 2, r = radius(zone.rtt_ms)
    const x = (middle[0] + r * Math.cos(angle)).toFixed(1), y = (middle[1] + r * Math.sin(angle)).toFixed(1)
    return s('g', { class: stateOf(zone) }, s('line', { x1: middle[0], y1: middle[1], x2: x, y2: y, 'stroke-dasharray': zone.can_commit === false ? '3 4' : null }),
      s('circle', { class: 'node', cx: x, cy: y, r: 8 }), s('path', { class: 'glyph', d: SHAPES[stateOf(zone)][1], transform: `translate(${x - 8} ${y - 8})` }), s('text', { class: 'name', x, y: (+y + 21).toFixed(1) }, zone.name.slice(0, 14)))
  })
  $('ring').replaceChildren(...orbits.flat(9), ...nodes, s('rect', { x: 144, y: 119, width: 12, height: 12, rx: 3 }))
}
const KEYS_SHOWN = 5
const item = top => key => h('li', {}, h('b', { class: 'count' }, known(key.losses)), h('code', {}, (key.table ?? 'all tables') + ' ' + short(key.key ?? '')), key.key === null ? ' key not shown ' : ' ', h('span', { class: 'tag' }, key.kind),
  h('meter', { min: 0, max: top, value: key.losses, 'aria-label': 'Share of the most lost key' }),
  h('p', { class: 'soft' }, 'lost by ' + counts(key.losers) + (Object.keys(key.winners).length ? ' · won by ' + counts(key.winners) : '') + (key.columns ? ' · columns ' + key.columns : '') + ' · ' + known(key.waited_ms / 1000, ' s', 1) + ' waited'),
  key.statement ? h('p', { class: 'soft' }, h('code', {}, short(key.statement))) : '',
  key.remedy_text ? h('p', {}, key.remedy_text, '.') : '', key.remedy_command ? command(key.remedy_command) : '')
function showKeys() {
  const within = Number(chosen('window'))
  const keys = view.hot_keys.filter(key => key.within_s === within), items = keys.map(item(keys[0]?.losses ?? 1)), rest = items.slice(KEYS_SHOWN)
  put('keys', keys.length ? items.slice(0, KEYS_SHOWN) : h('li', {}, 'Nothing was lost.'))
  put('more-keys', rest.length ? h('details', {}, h('summary', {}, known(rest.length) + ' more'), h('ol', { class: 'keys' }, rest)) : '')
}
// The sizes that this console has seen, at most of the last hour.
function showLog() {
  const sizes = view.log_sizes, most = Math.max(1, ...sizes.map(([, bytes]) => bytes)), since = Date.parse(sizes[0]?.[0]), span = Date.parse(sizes.at(-1)?.[0]) - since
  if (sizes.length < 2 || !(span > 0)) return put('log-chart', h('p', { class: 'soft' }, 'Its size over time follows.'))
  const points = sizes.map(([at, bytes]) => ((Date.parse(at) - since) / span * 300).toFixed(1) + ' ' + (88 - bytes / most * 84).toFixed(1)).join('L')
  const label = 'Size of the log from ' + clock(sizes[0][0]) + ' to ' + clock(sizes.at(-1)[0]) + ': at most ' + mebibytes(most) + ', now ' + mebibytes(sizes.at(-1)[1])
  put('log-chart', h('div', { class: 'ends' }, h('span', {}, 'at most ' + mebibytes(most))), s('svg', { class: 'chart', role: 'img', viewBox: '0 0 300 90', preserveAspectRatio: 'none', 'aria-label': label },
    s('path', { class: 'area', d: 'M0 88L' + points + 'L300 88Z' }), s('path', { d: 'M' + points })), h('div', { class: 'ends' }, h('span', {}, clock(sizes[0][0])), h('span', {}, clock(sizes.at(-1)[0]))))
}
const JOB_STATES = { done: 'ok', running: 'ok', waiting: 'warn', failed: 'bad' }
function showJobs() {
  put('schema', view.primary ? h('span', { class: 'big' }, 'Version ' + view.primary.catalog_version) : 'The primary was not asked')
  put('jobs', view.jobs.length ? view.jobs.map(job => h('li', {}, h('code', {}, short(job.statement)), h('div', {}, Object.keys(JOB_STATES).map(state => {
    const names = Object.keys(job.states).filter(name => job.states[name] === state)
    return names.length ? [word(JOB_STATES[state], state + ' at ' + names.join(', ')), ' '] : ''
  })), job.last_error ? h('div', { class: 'soft' }, short(job.last_error)) : '')) : h('li', { class: 'soft' }, view.zones.some(zone => zone.answers) ? 'No job that these roles may see.' : 'Semi-primaries tell jobs; none was asked.'))
}
function showRest() {
  const facts = rows => rows.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value ?? '–')))
  const p = view.primary
  put('primary-facts', p ? facts([['psp-primary', p.is_served ? word('ok', 'runs') : word('bad', 'does not run')], ['Decides', p.hands_over ? word('bad', 'no: it hands over to its standby') : p.standstill ? word('bad', 'no, for ' + p.standstill_s + ' s: ' + p.standstill) : word(p.is_served ? 'ok' : 'bad', p.is_served ? 'yes' : 'no')], ['Epoch', p.epoch], ['Mode', p.mode], ['Certified by', p.certified_by], ['Standbys required', p.copies], ['Synchronous standbys', p.synchronous_standbys]]) : facts([['The primary', 'was not asked']]))
  put('log-facts', p ? facts([['Log', mebibytes(p.log_bytes)], ['Newest number', known(p.newest_t)], ['Kept from', known(p.log_begins_t)], ['Kept most by', keeper()], ['Free on the disk', p.disk_free_bytes === null ? '–' : known(p.disk_free_bytes / 2 ** 30, ' GiB', 1)]]) : facts([['The primary', 'was not asked']]))
  put('event-rows', view.events.map(event => h('li', {}, h('time', {}, clock(event.at)), h('span', {}, word(event.state, event.what), event.more ? h('div', { class: 'soft' }, event.more) : ''))))
  const cell = (label, value) => h('td', { 'data-label': label }, value)
  put('member-rows', view.zones.map(zone => h('tr', {}, h('th', { scope: 'row' }, zone.name), cell('State', word(stateOf(zone), zone.state)), cell('Connected', zone.is_connected === null ? '–' : zone.is_connected ? 'yes' : 'no'), cell('Heard', clock(zone.seen_at)), cell('Watermark', known(zone.watermark)), cell('Keeps of the log', mebibytes(zone.keeps_bytes)), cell('PostgreSQL', zone.postgres ?? '–'))))
}
function show() {
  if (!view) return
  showAnswer(); showFigures(); showZones(); showRing(); showKeys(); showLog(); showJobs(); showRest()
}
function take(line) {
  const told = JSON.parse(line)
  lastAt = performance.now(); stale = false
  if (paused) return
  view = told
  $('live').textContent = 'Live ' + clock(told.taken_at) + ' UTC'
  show()
}
async function listen() {
  const token = location.hash.slice(1)
  const headers = /^[\w-]{20,}$/.test(token) ? { Authorization: 'Bearer ' + token } : {}
  const answer = await fetch('stream', { headers, cache: 'no-store' })
  if (answer.status === 401) { put('answer', 'This address has no right.'); put('detail', 'Open the address that psp console has printed.'); return false }
  if (!answer.ok) throw new Error('no stream')
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let rest = ''; ;) {
    const { value, done } = await reader.read()
    if (done) return true
    const parts = (rest + value).split('\n\n')
    rest = parts.pop()
    for (const part of parts) if (part.startsWith('data: ')) take(part.slice(6))
  }
}
async function stay() {
  for (let go = true; go;) {
    try { go = await listen() } catch { go = true }
    await new Promise(done => setTimeout(done, 2000))
  }
}
setInterval(() => {
  if (view && !stale && performance.now() - lastAt > 15000) { stale = true; $('live').textContent = 'No news since ' + clock(view.taken_at); show() }
}, 1000)
// The address has the token after its #, so a link to a section must not change it.
document.addEventListener('click', event => {
  const link = event.target.closest?.('a[href^="#"]')
  if (!link) return
  event.preventDefault()
  const target = $(link.getAttribute('href').slice(1))
  target.scrollIntoView(); target.focus({ preventScroll: true })
})
$('pause').addEventListener('click', () => {
  paused = !paused
  $('pause').setAttribute('aria-pressed', paused)
  $('live').textContent = paused ? 'Paused' : 'Live'
})
for (const id of ['window', 'scale']) $(id).addEventListener('change', show)
stay()
