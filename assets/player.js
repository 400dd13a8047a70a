// The player: chips, sentence, keyboard, messages. Python says what everything means
// (app/views.py); here it only gets its place. Text reaches the page by textContent alone.
const root = element.querySelector('.fd');
const find = (name) => root.querySelector(name);
const states = JSON.parse(props.states);
const text = find('.fd-text'), say = find('.fd-say'), spoken = find('.fd-sr'), tip = find('.fd-tip');
const scrub = find('.fd-scrub'), count = find('.fd-count');
let T = null, W = null, i = 0, timer = null, busy = false, want = null, chips = [], prompt = [], locked = null, dragging = null;
const cache = new Map();

const on = {
  step: (k) => cache.get(k) || (cache.set(k, merged(k)), cache.get(k)),
  thresholds: () => ({ gamma: W ? W.gamma : T.gamma, eps: W ? W.eps : T.eps, ...(dragging ? { [dragging.which]: dragging.value } : {}) }),
  unknownFrom: () => (W && W.first >= 0 ? W.first + 1 : -1),
  hover: (offset, k) => { point(offset === null ? -1 : offset); if (offset === null || offset < 0) hideTip(); else showTip(offset, k); },
  go: (k) => { pause(); show(k); },
  lock: (offset) => lock(offset),
  threshold: (which, value) => sendThreshold(which, value),
};
const charts = makeCharts(root, states, on);

// a step at the thresholds in force: the recorded one, with what-if verdicts laid over it
function merged(k) {
  const S = T.steps[k], now = W && W.steps[k];
  if (!now) return W && W.says[k] ? { ...S, say: W.says[k] } : S;
  const at = new Map(S.w.map((offset, n) => [offset, n])), pick = (list) => now.w.map((offset) => list[at.get(offset)]);
  return { ...S, ...now, x: pick(S.x), c: pick(S.c), m: pick(S.m), mc: pick(S.mc), alt: pick(S.alt) };
}

// --- chips: every position keeps the room of its final text, so nothing moves between steps
function layOut() {
  T.tok = Array(T.n).fill(-1); T.put = Array.from({ length: T.n }, () => []);
  const draft = Array(T.n).fill(-1);
  T.steps.forEach((S, k) => { S.w.forEach((offset, n) => { draft[offset] = S.x[n]; }); S.put.forEach(([offset, t]) => { T.tok[offset] = t; T.put[offset].push([k, t]); }); S.out.forEach((offset) => { T.tok[offset] = -1; }); });
  const parts = [];
  let word = null, length = 0;
  chips = [];
  for (let p = 0; p < T.n; p++) {
    const [, indent, core, rest] = T.tok[p] >= 0 ? T.texts[T.tok[p]] : draft[p] >= 0 && (T.live || T.status !== 'finished') ? [T.texts[draft[p]][0], ' ', T.texts[draft[p]][0], ''] : ['·', ' ', '·', ''];
    const isNever = T.tok[p] < 0 && core === '·';
    if (indent || !word || /\n/.test(rest) || length > 18 || core === '∎') {
      length = 0;
      if (indent && !isNever) parts.push(document.createTextNode(indent));
      word = document.createElement('span'); word.className = 'fd-word'; parts.push(word);
    }
    const chip = document.createElement('span'), ghost = document.createElement('span'), top = document.createElement('span');
    chip.className = 'tk'; chip.setAttribute('role', 'listitem'); chip.dataset.p = p;
    ghost.className = 'g'; ghost.textContent = core; ghost.setAttribute('aria-hidden', 'true'); top.className = 't';
    chip.append(ghost, top); word.append(chip); length += core.length;
    chips.push({ chip, top, never: isNever ? ' never' : '', look: '', shown: null, mass: '', code: 0 });
    if (rest) { parts.push(document.createTextNode(rest)); word = null; }
  }
  text.replaceChildren(...parts);
  root.classList.toggle('mono', T.mono); root.classList.toggle('few', T.n <= 16);
}
function layOutPrompt() {
  const box = find('.fd-prompt-text');
  prompt = T.prompt.map((t, p) => { const span = document.createElement('span'), [, indent, core, rest] = T.texts[t]; span.textContent = indent + core + rest; span.dataset.abs = p; return span; });
  box.replaceChildren(...prompt);
  find('.fd-prompt summary span').textContent = T.typed.replace(/⏎/g, ' ');
}
// the step that wrote what stands at a position before step k, and its text
const written = (p, k) => T.put[p].findLast(([at]) => at < k);
const digit = (S, p) => parseInt(S.row[p], 16);
const draftText = ([name, , core]) => (core.trim() && core.length <= 14 ? core : name);
function paint(k) {
  const S = T.steps[k] ? on.step(k) : null, at = new Map(S ? S.w.map((offset, n) => [offset, n]) : []);
  const mass = new Map(S ? S.low : []);
  const height = (abs) => (mass.has(abs) ? Math.min(5, 1.5 + mass.get(abs) / 40) + 'px' : '');
  chips.forEach((c, p) => {
    const code = S ? digit(S, p) : 0, n = at.get(p), stands = code >= 9 ? written(p, k)[1] : -1;
    const word = c.never && stands < 0 ? '·' : stands >= 0 ? (stands === T.tok[p] ? T.texts[stands][2] : draftText(T.texts[stands])) : n === undefined ? '·' : draftText(T.texts[code === 7 ? S.m[n] : S.x[n]]);
    const isFresh = (code >= 2 && code <= 7) || code === 10;
    const look = `tk s${code}${word[0] === '⏎' || word[0] === '␣' ? ' nl' : ''}${isFresh ? ' fresh' : ''}${c.never}`;
    if (c.look !== look) { c.chip.className = look + (locked === p ? ' locked' : ''); c.chip.dataset.m = isFresh ? states[code].mark : ''; c.look = look; c.code = code; }
    if (c.shown !== word) { c.top.textContent = word; c.shown = word; }
    const h = height(p + T.p0);
    if (c.mass !== h) { c.chip.style.setProperty('--h', h || '0px'); c.mass = h; }
  });
  prompt.forEach((span, p) => { const h = height(p); if (span.style.getPropertyValue('--h') !== h) span.style.setProperty('--h', h || '0px'); });
  root.classList.toggle('unknown', on.unknownFrom() >= 0 && k >= on.unknownFrom());
}

// --- stepping; the newest wish wins while a draw is going on
async function show(k) {
  want = Math.max(0, Math.min(k, T.steps.length - 1));
  if (busy) return;
  busy = true;
  try {
    while (want !== null) {
      i = want; want = null;
      paint(i);
      const S = T.steps[i] ? on.step(i) : null, n = T.steps.length;
      say.textContent = S ? S.say : 'All positions are blank. The first step is being drafted.';
      if (!timer) spoken.textContent = S ? `Step ${S.i} of ${n}. ${S.say}` : '';
      scrub.max = Math.max(1, n); scrub.value = i + 1;
      count.replaceChildren('step ', bold(n ? i + 1 : 0), ` of ${n}`);
      if (tip.dataset.on) hideTip();
      await charts.step(i);
      root.dataset.step = i + 1;
      rest();
    }
  } finally { busy = false; }
}
// tells Python where the reader came to rest
let resting = null, rested = '';
function rest() { clearTimeout(resting); resting = setTimeout(() => { const at = T.run + '/' + (i + 1); if (!timer && !T.live && T.steps.length && rested !== at) { rested = at; trigger('step', { step: i + 1 }); } }, 300); }
const bold = (value) => { const b = document.createElement('b'); b.textContent = value; return b; };
function play() { if (timer) return pause(); if (!T.steps.length) return; if (i >= T.steps.length - 1) show(0); root.classList.add('playing'); find('.fd-play').setAttribute('aria-label', 'Pause'); tick(); }
function tick() { timer = setTimeout(() => { if (i >= T.steps.length - 1) return pause(); show(i + 1); tick(); }, +find('.fd-speed select').value); }
function pause() { clearTimeout(timer); timer = null; root.classList.remove('playing'); find('.fd-play').setAttribute('aria-label', 'Play'); }
function follow(is) { root.classList.toggle('following', is); if (is && T) show(T.steps.length - 1); }
function read() { const is = root.classList.toggle('reading'); find('.fd-read').setAttribute('aria-pressed', is); }
const acts = { first: () => on.go(0), back: () => on.go(i - 1), play, next: () => on.go(i + 1), last: () => on.go(T.steps.length - 1), read, follow: () => follow(true), change: () => { if (W && W.first >= 0) on.go(W.first); } };
function act(name) { if (!T) return; if (name !== 'follow' && name !== 'read') root.classList.remove('following'); if (name === 'last' && T.live) root.classList.add('following'); acts[name](); }
root.addEventListener('click', (e) => { const b = e.target.closest('[data-do]'); if (b) act(b.dataset.do); });
scrub.addEventListener('input', () => { pause(); root.classList.remove('following'); show(+scrub.value - 1); });
const keys = { ' ': 'play', ArrowLeft: 'back', ArrowRight: 'next', Home: 'first', End: 'last', r: 'read', R: 'read', f: 'follow' };
function key(e) {
  if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || !keys[e.key] || !T) return;
  if (e.target === scrub && e.key !== ' ' && keys[e.key] !== 'read') return;
  if (e.target.closest('select, summary, textarea, input:not(.fd-scrub)') || (e.key === ' ' && e.target.closest('button'))) return;
  e.preventDefault(); act(keys[e.key]);
}
root.addEventListener('keydown', key);
const bodyKey = (e) => { if (e.target === document.body && root.offsetParent && e.key !== 'Home' && e.key !== 'End') key(e); };
document.addEventListener('keydown', bodyKey);

// --- pointing: one position lights up wherever it is
function point(offset) {
  for (const c of root.querySelectorAll('.lit')) c.classList.remove('lit');
  const mark = offset >= 0 ? chips[offset] && chips[offset].chip : offset === -1 ? null : prompt[offset + T.p0];
  if (mark) mark.classList.add('lit');
  charts.light(offset);
}
function lock(offset) {
  if (locked !== null && chips[locked]) chips[locked].chip.classList.remove('locked');
  locked = locked === offset ? null : offset;
  if (locked !== null && chips[locked]) { chips[locked].chip.classList.add('locked'); showTip(locked, i); point(locked); } else { hideTip(true); point(-1); }
}
const chipOf = (e) => e.target.closest('.tk');
text.addEventListener('mouseover', (e) => { const c = chipOf(e); if (c) on.hover(+c.dataset.p, i); });
text.addEventListener('mouseleave', () => on.hover(null));
text.addEventListener('click', (e) => { const c = chipOf(e); if (c) lock(+c.dataset.p); });
find('.fd-prompt-text').addEventListener('mouseover', (e) => { const a = e.target.dataset.abs; if (a !== undefined) point(+a - T.p0); });
find('.fd-prompt-text').addEventListener('mouseleave', () => point(-1));
function hideTip(force) {
  if (locked !== null && !force) { showTip(locked, i); point(locked); return; }
  tip.hidden = true; delete tip.dataset.on;
}
function showTip(offset, k) {
  if (offset < 0 || !T.steps[k]) return;
  let S = on.step(k), code = digit(S, offset);
  const isOld = code >= 9, isGone = code === 10, again = S.again.find((a) => a[0] === offset);
  if (isOld) { k = written(offset, k)[0]; S = on.step(k); code = digit(S, offset); }
  const n = S.w.indexOf(offset), lines = [], name = (t) => T.texts[t][0], percent = (v) => (v < 0 ? '–' : (v / 1000).toFixed(2));
  const line = (tag, words, cls) => { const e = document.createElement(tag); e.textContent = words; if (cls) e.className = cls; lines.push(e); return e; };
  line('div', `position ${offset}`, 'q');
  if (n < 0) line('div', 'Blank; outside the window, so the model was not asked about it.');
  else {
    lines.push(bold(`“${name(code === 7 ? S.m[n] : S.x[n])}”`));
    line('div', isOld ? `Written in step ${S.i}. ${S.why[n]}` : S.why[n]);
    if (isGone) line('div', 'Taken back in this step.');
    const waited = T.steps.slice(0, k).filter((s) => s.w.includes(offset)).length;
    const table = line('table', '');
    const row = (a, b, cls) => { const tr = table.insertRow(); tr.className = cls || ''; tr.insertCell().append(a); tr.insertCell().append(b); };
    row('draft c', percent(S.c[n]));
    if (S.m[n] >= 0) row(`mask view says “${name(S.m[n])}”, c̃`, percent(S.mc[n]));
    if (again) row(`asked again without itself, the model says “${name(again[2])}”; this one has`, percent(again[1]));
    if (S.r[n] > 0) row('checked as', `${S.r[n]} of ${S.s - S.d}`);
    if (waited) row('drafted before in', `${waited} step${waited > 1 ? 's' : ''}`);
    for (let a = 0; a < S.alt[n].length; a += 2) {
      const bar = document.createElement('span'), cell = document.createElement('span');
      bar.className = 'bar'; bar.style.width = 70 * S.alt[n][a + 1] / 1000 + 'px'; cell.append(bar, percent(S.alt[n][a + 1]));
      row(name(S.alt[n][a]), cell, 'q');
    }
  }
  tip.replaceChildren(...lines); tip.hidden = false; tip.dataset.on = 1;
  const box = root.getBoundingClientRect(), chip = chips[offset].chip.getBoundingClientRect();
  tip.style.left = Math.max(0, Math.min(chip.left - box.left, box.width - tip.offsetWidth)) + 'px';
  const below = chip.bottom - box.top + 8;
  tip.style.top = (chip.bottom + tip.offsetHeight + 12 < innerHeight || chip.top < tip.offsetHeight ? below : chip.top - box.top - tip.offsetHeight - 14) + 'px';
}

// --- the legend explains by pointing
function legend() {
  const help = find('.fd-help'), idle = 'Point at a word here and its tokens stand out.';
  const stops = { ...states[4], label: 'stops here', help: 'The check stops here: the mask view says another token (≠), or agrees but is less sure than γ (<γ).' };
  const show = [states[9], states[2], states[3], stops, states[6], states[1], states[0], ...(T && T.steps.some((S) => S.out.length) ? [states[10]] : []), { code: 't', label: 're-read', mark: '', help: 'A purple foot: the cache re-reads this written token in this step; the higher, the more attention it gets.' }];
  find('.fd-keys').replaceChildren(...show.map((s) => {
    const b = document.createElement('button'), sample = document.createElement('i');
    b.type = 'button'; b.className = 'k' + s.code; sample.textContent = s.mark;
    if (s.key && s.code !== 9) { sample.style.background = `var(--fd-${s.key})`; sample.style.color = `var(--fd-${s.key}-ink)`; }
    b.append(sample, s.label);
    const enter = () => { help.textContent = s.help; root.classList.add('pointing'); chips.forEach((c) => { c.chip.classList.toggle('pointed', s.code === 't' ? !!c.mass : c.code === s.code || (s.code === 4 && c.code === 5) || (s.code === 1 && c.code === 8)); }); };
    const leave = () => { help.textContent = idle; root.classList.remove('pointing'); chips.forEach((c) => c.chip.classList.remove('pointed')); };
    b.addEventListener('mouseenter', enter); b.addEventListener('focus', enter); b.addEventListener('mouseleave', leave); b.addEventListener('blur', leave);
    return b;
  }));
  help.textContent = idle;
}

// --- messages from Python: a trace, more steps of it, or what-if verdicts
function sendThreshold(which, value) {
  const name = which === 'gamma' ? 'gamma' : 'epsilon', now = Date.now();
  if (value === null) { const d = dragging; dragging = null; if (d && d.pending) { clearTimeout(d.timer); fire(d.name, d.value); } return; }
  dragging = dragging || { last: 0 };
  Object.assign(dragging, { which, name, value, pending: true });
  clearTimeout(dragging.timer);
  const go = () => { if (dragging) { dragging.last = Date.now(); dragging.pending = false; } fire(name, value); };
  if (now - dragging.last > 80) go(); else dragging.timer = setTimeout(go, 80);
}
function fire(name, value) { if (name === 'gamma') trigger('gamma', { v: value }); else trigger('epsilon', { v: value }); }
function whatIf(message) {
  if (!T || message.run !== T.run) return;
  const before = W;
  W = message.same ? null : message;
  cache.clear();
  root.classList.toggle('whatif', !!W);
  find('.fd-whatif button').textContent = message.badge; find('.fd-whatif span').textContent = message.explain;
  root.dataset.badge = W ? message.badge : '';
  const changed = (w) => (w ? Object.keys(w.steps).join() + w.first : '-1');
  if (changed(before) !== changed(W) || (W && Object.keys(W.steps).length)) charts.run();
  show(i).then(() => { root.dataset.judged = Date.now(); });
}
function setFoot() { find('.fd-foot').textContent = [T.summary, T.settings, T.model].filter(Boolean).join('  ·  '); }
function receive() {
  if (!props.value) return;
  const message = JSON.parse(props.value);
  if (message.kind === 'whatif') return whatIf(message);
  if (message.kind === 'go') { root.dataset.focus = message.focus; if (T) { rested = T.run + '/' + message.step; on.go(message.step - 1); } return; }
  if (message.kind === 'delta') {
    if (!T || message.run !== T.run || !T.live) return;
    if (message.from > T.steps.length) { trigger('resync', { run: T.run }); return; }
    T.texts.splice(message.base, message.texts.length, ...message.texts);
    T.steps.splice(message.from, message.steps.length, ...message.steps);
    layOut(); charts.trace(T); charts.run();
    show(root.classList.contains('following') ? T.steps.length - 1 : i);
    return;
  }
  root.dataset.focus = message.focus || '';
  const wasLive = T && T.live && (T.run === message.run || T.run === message.was), isSame = wasLive || (T && T.run === message.run);
  if (!isSame) { pause(); locked = null; hideTip(true); }
  if (!T) rested = message.run + '/' + (message.at0 + 1); // Python knows where the page opens
  T = message; W = null; cache.clear();
  root.classList.remove('whatif'); root.dataset.badge = ''; root.dataset.run = T.run; root.dataset.status = T.status;
  root.classList.toggle('live', T.live);
  if (T.live) root.classList.add('following');
  layOut(); layOutPrompt(); legend(); setFoot(); charts.trace(T); charts.run(); charts.light(-1);
  const stay = wasLive ? (root.classList.contains('following') ? T.steps.length - 1 : i) : T.live ? 0 : T.at0;
  if (!T.live) root.classList.remove('following');
  show(stay);
}
legend();
receive();
watch('value', receive);
const redraw = () => { if (root.offsetParent) charts.redraw(); };
new MutationObserver(redraw).observe(document.body, { attributes: true, attributeFilter: ['class'] });
// a link's address asks for a run, a step, settings, a tab
let asked = new URLSearchParams(location.search);
asked.delete('__theme');
// loaded again: what app/tabs/reload.py kept comes before the address
if (props.follows && ['reload', 'back_forward'].includes(performance.getEntriesByType('navigation')[0]?.type)) {
  try {
    const kept = JSON.parse(sessionStorage.getItem('flash-dllm' + location.pathname)) || {};
    if (kept.query) asked = new URLSearchParams(kept.query + (kept.tab ? '&tab=' + kept.tab : ''));
  } catch { /* the browser keeps nothing here */ }
}
if (props.follows && asked.size) setTimeout(() => trigger('follow', { query: asked.toString() }), 0);
let width = root.clientWidth;
new ResizeObserver(() => { if (root.clientWidth && Math.abs(root.clientWidth - width) > 2) { width = root.clientWidth; redraw(); } }).observe(root);
// the chips are on the page before the charts' library is even asked for
requestAnimationFrame(() => setTimeout(() => {
  const start = () => { charts.start(window.Plotly); if (T) { charts.run(); show(i); } };
  if (window.Plotly) return start();
  const script = document.createElement('script');
  script.src = props.plotly; script.onload = start;
  script.onerror = () => { find('.fd-foot').textContent = 'The charts could not be loaded; the tokens above still work.'; };
  document.head.append(script);
}));
