// The player: chips, sentence, keyboard, messages. Python says what everything means
// (app/views.py); here it only gets its place. Text reaches the page by textContent alone.
const root = element.querySelector('.fd');
const find = (name) => root.querySelector(name);
const states = JSON.parse(props.states);
const text = find('.fd-text'), say = find('.fd-say'), spoken = find('.fd-sr'), tip = find('.fd-tip');
const scrub = find('.fd-scrub'), count = find('.fd-count');
let T = null, W = null, i = 0, timer = null, busy = false, want = null, chips = [], prompt = [], locked = null, dragging = null;
const cache = new Map();

// --- words: Python sends every sentence in every language; the page's choice picks one
const allWords = JSON.parse(props.words), languages = Object.keys(allWords), colours = JSON.parse(props.sequence);
const firstOf = (names) => names.map((name) => (name || '').slice(0, 2).toLowerCase()).find((name) => languages.includes(name));
let language = firstOf([new URLSearchParams(location.search).get('lang'), window.fdLanguage, props.language, ...(navigator.languages || [])]) || languages[0];
let colourBy = 'state', alive = -1;
const fill = (template, parts) => template.replace(/{(\w+)}/g, (_, name) => parts[name]);
const w = (key, parts) => { const template = allWords[language][key]; return parts && !Array.isArray(template) ? fill(template, parts) : template; };
const counted = (key, count) => fill(w(key)[count === 1 ? 0 : 1], { count });
const line = (told) => (told ? told[languages.indexOf(language)] : '');
function label() {
  root.lang = language;
  for (const e of root.querySelectorAll('[data-w]')) e.textContent = w(e.dataset.w);
  for (const e of root.querySelectorAll('[data-wt]')) { e.title = w(e.dataset.wt); if (!e.dataset.w) e.setAttribute('aria-label', w(e.dataset.wt)); }
  for (const e of root.querySelectorAll('[data-wl]')) e.setAttribute('aria-label', w(e.dataset.wl));
}
function speak(chosen) {
  if (!languages.includes(chosen) || chosen === language) return;
  language = chosen; label(); legend();
  if (T) { setFoot(); charts.words(); charts.run(); charts.life(alive); show(i); }
}

const on = {
  step: (k) => cache.get(k) || (cache.set(k, merged(k)), cache.get(k)),
  thresholds: () => ({ gamma: W ? W.gamma : T.gamma, eps: W ? W.eps : T.eps, ...(dragging ? { [dragging.which]: dragging.value } : {}) }),
  unknownFrom: () => (W && W.first >= 0 ? W.first + 1 : -1),
  hover: (offset, k) => { point(offset === null ? -1 : offset); if (offset === null || offset < 0) hideTip(); else showTip(offset, k); },
  go: (k) => { pause(); show(k); },
  lock: (offset) => lock(offset),
  threshold: (which, value) => sendThreshold(which, value),
  w, line,
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
  T.tok = Array(T.n).fill(-1); T.at = Array(T.n).fill(-1); T.put = Array.from({ length: T.n }, () => []);
  const draft = Array(T.n).fill(-1);
  T.steps.forEach((S, k) => { S.w.forEach((offset, n) => { draft[offset] = S.x[n]; }); S.put.forEach(([offset, t]) => { T.tok[offset] = t; T.at[offset] = k; T.put[offset].push([k, t]); }); S.out.forEach((offset) => { T.tok[offset] = -1; T.at[offset] = -1; }); });
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
    chip.className = 'tk'; chip.setAttribute('role', 'listitem'); chip.dataset.p = p; chip.tabIndex = -1;
    ghost.className = 'g'; ghost.textContent = core; ghost.setAttribute('aria-hidden', 'true'); top.className = 't';
    chip.append(ghost, top); word.append(chip); length += core.length;
    chips.push({ chip, top, never: isNever ? ' never' : '', look: '', shown: null, mass: '', tint: '', code: 0, by: -1 });
    if (rest) { parts.push(document.createTextNode(rest)); word = null; }
  }
  text.replaceChildren(...(T.tree ? rows() : parts));
  if (chips.length) chips[0].chip.tabIndex = 0;
  root.classList.toggle('mono', T.mono); root.classList.toggle('few', T.n <= 16);
}
// code keeps its lines: one row each, with its level, and what stands under it folds away
function rows() {
  const list = [], open = [];
  T.tree.forEach(([first, indent, below], r) => {
    const row = document.createElement('div'), next = T.tree.slice(r + 1).find((other) => other[0] !== null);
    row.className = 'fd-row'; row.style.setProperty('--in', indent);
    if (below) {
      const fold = document.createElement('button');
      fold.type = 'button'; fold.className = 'fd-fold'; fold.title = w('fold'); fold.dataset.wt = 'fold'; fold.setAttribute('aria-label', w('fold')); fold.setAttribute('aria-expanded', 'true');
      fold.addEventListener('click', () => { const is = fold.getAttribute('aria-expanded') === 'true'; fold.setAttribute('aria-expanded', String(!is)); shut(); });
      row.append(fold); open.push({ fold, from: r + 1, to: r + below });
    }
    if (first === null) row.classList.add('empty');
    else for (let p = first; p < (next ? next[0] : T.n); p++) {
      const parts = (q) => (T.tok[q] >= 0 ? T.texts[T.tok[q]] : ['', '', '', '']), before = p && p === first ? parts(p - 1)[3].replace(/^.*\n/s, '') : '', after = parts(p)[3];
      row.append(before, parts(p)[1].replace(/^.*\n/s, ''), chips[p].chip, /\n/.test(after) ? '' : after);
      chips[p].chip.classList.add('in-row');
    }
    list.push(row);
  });
  const shut = () => list.forEach((row, r) => { row.hidden = open.some((o) => o.fold.getAttribute('aria-expanded') === 'false' && r >= o.from && r <= o.to); });
  return list;
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
  const seen = new Map();
  if (S && colourBy === 'mass') for (let a = 0; a < S.mass.length; a += 2) seen.set(S.mass[a], Math.sqrt(S.mass[a + 1] / T.topMass));
  const last = Math.max(1, T.steps.length - 1);
  const height = (abs) => (mass.has(abs) ? Math.min(5, 1.5 + mass.get(abs) / 40) + 'px' : '');
  chips.forEach((c, p) => {
    const code = S ? digit(S, p) : 0, n = at.get(p), stands = code >= 9 ? written(p, k)[1] : -1;
    const word = c.never && stands < 0 ? '·' : stands >= 0 ? (stands === T.tok[p] ? T.texts[stands][2] : draftText(T.texts[stands])) : n === undefined ? '·' : draftText(T.texts[code === 7 ? S.m[n] : S.x[n]]);
    const isFresh = (code >= 2 && code <= 7) || code === 10;
    c.by = code === 9 ? written(p, k)[0] : T.put[p].some(([by]) => by === k) ? k : -1;
    let shape = `s${code}`, tint = '', mark = isFresh ? states[code].mark : '';
    if (colourBy === 'step' && c.by >= 0 && S) { // the same step as the left neighbour: said once
      const part = Math.round(c.by / last * (colours.length - 1)), isSame = p > 0 && chips[p - 1].by === c.by && (chips[p - 1].chip.nextSibling === chips[p].chip || T.tok[p - 1] === T.tok[p]);
      shape = `sq q${part}`; tint = colours[part]; mark = isSame ? '' : String(c.by + 1);
    } else if (colourBy === 'mass') {
      mark = ''; shape = code >= 9 || code === 0 ? shape : 's0 asked';
      if (code === 9 && seen.has(p + T.p0)) { shape = 's9 looked'; tint = (100 * seen.get(p + T.p0)).toFixed(0) + '%'; }
    }
    const look = `tk ${shape}${c.chip.classList.contains('in-row') ? ' in-row' : ''}${word[0] === '⏎' || word[0] === '␣' ? ' nl' : ''}${isFresh ? ' fresh' : ''}${c.never}`;
    if (c.look !== look) { c.chip.className = look + (locked === p ? ' locked' : ''); c.look = look; }
    if (c.mark !== mark) { c.chip.dataset.m = mark; c.mark = mark; }
    if (c.tint !== tint) { c.chip.style.setProperty('--q', tint || 'transparent'); c.tint = tint; }
    c.code = code;
    if (c.shown !== word) { c.top.textContent = word; c.shown = word; }
    const h = height(p + T.p0);
    if (c.mass !== h) { c.chip.style.setProperty('--h', h || '0px'); c.mass = h; }
  });
  prompt.forEach((span, p) => { const h = height(p); if (span.style.getPropertyValue('--h') !== h) span.style.setProperty('--h', h || '0px'); const q = seen.has(p) ? (100 * seen.get(p)).toFixed(0) + '%' : ''; if (span.style.getPropertyValue('--q') !== q) { span.style.setProperty('--q', q); span.classList.toggle('looked', !!q); } });
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
      say.textContent = S ? line(S.say) : w('blank');
      if (!timer) spoken.textContent = S ? w('spoken', { k: S.i, n, say: line(S.say) }) : '';
      if (colourBy !== 'state') scale();
      scrub.max = Math.max(1, n); scrub.value = i + 1;
      count.replaceChildren(...w('count').split(/({[kn]})/).filter(Boolean).map((part) => (part === '{k}' ? bold(n ? i + 1 : 0) : part === '{n}' ? n : part)));
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
function play() { if (timer) return pause(); if (!T.steps.length) return; if (i >= T.steps.length - 1) show(0); root.classList.add('playing'); find('.fd-play').setAttribute('aria-pressed', 'true'); tick(); }
function tick() { timer = setTimeout(() => { if (i >= T.steps.length - 1) return pause(); show(i + 1); tick(); }, +find('.fd-speed select').value); }
function pause() { clearTimeout(timer); timer = null; root.classList.remove('playing'); find('.fd-play').setAttribute('aria-pressed', 'false'); }
function follow(is) { root.classList.toggle('following', is); if (is && T) show(T.steps.length - 1); }
function read() { const is = root.classList.toggle('reading'); find('.fd-read').setAttribute('aria-pressed', is); }
function colour(by) { colourBy = by; find('.fd-colour select').value = by; root.dataset.colour = by; if (by === 'mass') find('.fd-prompt').open = true; legend(); if (T) { paint(i); if (by !== 'state') scale(); } }
const kinds = ['state', 'step', 'mass'];
find('.fd-colour select').addEventListener('change', (e) => colour(e.target.value));
const acts = { colour: () => colour(kinds[(kinds.indexOf(colourBy) + 1) % kinds.length]), first: () => on.go(0), back: () => on.go(i - 1), play, next: () => on.go(i + 1), last: () => on.go(T.steps.length - 1), read, follow: () => follow(true), change: () => { if (W && W.first >= 0) on.go(W.first); } };
function act(name) { if (!T) return; if (name !== 'follow' && name !== 'read' && name !== 'colour') root.classList.remove('following'); if (name === 'last' && T.live) root.classList.add('following'); acts[name](); }
root.addEventListener('click', (e) => { const b = e.target.closest('[data-do]'); if (b) act(b.dataset.do); const go = e.target.closest('[data-go]'); if (go) on.go(+go.dataset.go); });
scrub.addEventListener('input', () => { pause(); root.classList.remove('following'); show(+scrub.value - 1); });
const keys = { ' ': 'play', ArrowLeft: 'back', ArrowRight: 'next', Home: 'first', End: 'last', r: 'read', R: 'read', f: 'follow', c: 'colour', C: 'colour', ',': 'back', '.': 'next' };
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
  if (locked !== null) { alive = locked; charts.life(alive); }
  if (locked !== null && chips[locked]) { chips[locked].chip.classList.add('locked'); showTip(locked, i); point(locked); } else { hideTip(true); point(-1); }
}
const chipOf = (e) => e.target.closest('.tk');
text.addEventListener('mouseover', (e) => { const c = chipOf(e); if (c) on.hover(+c.dataset.p, i); });
text.addEventListener('mouseleave', () => on.hover(null));
text.addEventListener('click', (e) => { const c = chipOf(e); if (c) lock(+c.dataset.p); });
// the same by keyboard: one token is in the tab order, arrow keys go to its neighbours
text.addEventListener('focusin', (e) => {
  const c = chipOf(e); if (!c) return;
  for (const o of chips) if (o.chip.tabIndex === 0) o.chip.tabIndex = -1;
  c.tabIndex = 0; on.hover(+c.dataset.p, i);
  c.setAttribute('aria-label', [...tip.children].map((part) => part.innerText).join('. '));
});
text.addEventListener('focusout', (e) => { const c = chipOf(e); if (c) c.removeAttribute('aria-label'); if (!text.contains(e.relatedTarget)) on.hover(null); });
text.addEventListener('keydown', (e) => {
  const c = chipOf(e); if (!c || e.ctrlKey || e.metaKey || e.altKey) return;
  const p = +c.dataset.p, to = { ArrowRight: p + 1, ArrowLeft: p - 1, Home: 0, End: chips.length - 1, ArrowDown: beside(p, 1), ArrowUp: beside(p, -1) }[e.key];
  if (to !== undefined) { e.preventDefault(); if (chips[to] && chips[to].chip.offsetParent) chips[to].chip.focus(); }
  else if (e.key === 'Enter') { e.preventDefault(); lock(p); }
  else if (e.key === 'Escape') { e.preventDefault(); if (locked !== null) lock(locked); root.focus(); }
});
function beside(p, by) { // the nearest token of the next line down or up
  const box = chips[p].chip.getBoundingClientRect(), middle = box.left + box.width / 2;
  let best = p, least = Infinity, line1 = null;
  for (let n = p + by; chips[n]; n += by) {
    const o = chips[n].chip.getBoundingClientRect(); if (!o.height || by * (o.top - box.top) < box.height / 2) continue;
    if (line1 === null) line1 = o.top;
    if (Math.abs(o.top - line1) > box.height / 2) break;
    const far = Math.abs(o.left + o.width / 2 - middle); if (far < least) { least = far; best = n; }
  }
  return best;
}
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
  const n = S.w.indexOf(offset), lines = [], name = (t) => T.texts[t][0], percent = (v) => (v < 0 ? '–' : (v / 1000).toFixed(3));
  const put = (tag, words, cls) => { const e = document.createElement(tag); e.textContent = words; if (cls) e.className = cls; lines.push(e); return e; };
  put('div', w('position', { p: offset }), 'q');
  if (n < 0) put('div', w('outside'));
  else {
    lines.push(bold(`“${name(code === 7 ? S.m[n] : S.x[n])}”`));
    put('div', isOld ? w('written_in', { k: S.i, why: line(S.why[n]) }) : line(S.why[n]));
    if (isGone) put('div', w('taken_back'));
    const waited = T.steps.slice(0, k).filter((s) => s.w.includes(offset)).length;
    const table = put('table', '');
    const row = (a, b, cls) => { const tr = table.insertRow(); tr.className = cls || ''; tr.insertCell().append(a); tr.insertCell().append(b); };
    row(w('draft_c'), percent(S.c[n]));
    if (S.m[n] >= 0) row(w('mask_c', { text: name(S.m[n]) }), percent(S.mc[n]));
    if (again) row(w('asked_again', { text: name(again[2]) }), percent(again[1]));
    if (S.r[n] > 0) row(w('checked_as'), w('rank_of', { k: S.r[n], n: S.s - S.d }));
    if (waited) row(w('drafted_before'), counted('steps', waited));
    if (S.alt[n].length) row(w('alternatives'), '', 'q');
    // the same word with and without a space before it: shown apart
    const rival = (all, a) => { const [told, indent] = T.texts[all[a]], isTwice = all.some((t, b) => b !== a && b % 2 === 0 && T.texts[t][0] === told); return (isTwice ? indent.replace(/ /g, '␣').replace(/\n/g, '⏎') : '') + told; };
    for (let a = 0; a < S.alt[n].length; a += 2) {
      const bar = document.createElement('span'), cell = document.createElement('span');
      bar.className = 'bar'; bar.style.width = 70 * S.alt[n][a + 1] / 1000 + 'px'; cell.append(bar, percent(S.alt[n][a + 1]));
      row(rival(S.alt[n], a), cell, 'q');
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
  const help = find('.fd-help'), idle = w('legend'), named = (s) => { const [name, told] = allWords[language].states[s.key]; return { ...s, label: name, help: told }; };
  const stops = { ...named({ key: 'stops' }), code: 4, key: 'mismatch', mark: states[4].mark };
  const gone = T && T.steps.some((S) => S.out.length) ? [10] : [];
  const show = [...[9, 2, 3].map((k) => named(states[k])), stops, ...[6, 1, 0, ...gone].map((k) => named(states[k])), { ...named({ key: 'tracked' }), key: '', code: 't', mark: '' }];
  find('.fd-keys').replaceChildren(...show.map((s) => {
    const b = document.createElement('button'), sample = document.createElement('i');
    b.type = 'button'; b.className = 'k' + s.code; sample.textContent = s.mark;
    if (s.key && s.code !== 9) { sample.style.background = `var(--fd-${s.key})`; sample.style.color = `var(--fd-${s.key}-ink)`; }
    b.append(sample, s.label);
    const enter = () => { help.textContent = s.help; root.classList.add('pointing'); chips.forEach((c) => { const code = String(c.code); c.chip.classList.toggle('pointed', s.code === 't' ? !!c.mass : code === String(s.code) || (s.code === 4 && code === '5') || (s.code === 1 && code === '8')); }); };
    const leave = () => { help.textContent = idle; root.classList.remove('pointing'); chips.forEach((c) => c.chip.classList.remove('pointed')); };
    b.addEventListener('mouseenter', enter); b.addEventListener('focus', enter); b.addEventListener('mouseleave', leave); b.addEventListener('blur', leave);
    return b;
  }));
  help.textContent = colourBy === 'state' ? idle : '';
}
function scale() { // the legend of the other two ways to colour
  const help = find('.fd-help'), bar = find('.fd-scale'), n = T.steps.length, S = T.steps[i];
  const end = (words) => { const e = document.createElement('span'); e.textContent = words; return e; };
  const ramp = document.createElement('i');
  ramp.style.background = colourBy === 'step' ? `linear-gradient(90deg, ${colours.join()})` : '';
  bar.replaceChildren(end(colourBy === 'step' ? 1 : '0'), ramp, end(colourBy === 'step' ? n : (T.topMass / 100).toFixed(1) + ' %'));
  if (colourBy === 'step') { help.textContent = w('step_scale'); return; }
  if (!S || !S.mass.length) { help.textContent = w('mass_none'); return; }
  const [prompt1, answer, count1, isAll] = S.look, percent = (v) => Math.round(v / 10);
  help.textContent = w('mass_scale', { share: w(isAll ? 'mass_share' : 'mass_part', { prompt: percent(prompt1), answer: percent(answer), count: count1, all: percent(S.decided) }) });
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
  for (const k in message.steps) tell(message.steps[k], message.lines);
  for (const k in message.says) message.says[k] = message.lines[message.says[k]];
  W = message.same ? null : message;
  cache.clear();
  root.classList.toggle('whatif', !!W);
  find('.fd-whatif button').textContent = message.badge; find('.fd-whatif span').textContent = message.explain;
  root.dataset.badge = W ? message.badge : '';
  const changed = (w) => (w ? Object.keys(w.steps).join() + w.first : '-1');
  const isOther = changed(before) !== changed(W) || (W && Object.keys(W.steps).length > 0);
  Promise.all([isOther && charts.run(), show(i)]).then(() => { root.dataset.judged = Date.now(); });
}
function setFoot() { find('.fd-foot').textContent = [line(T.summary), T.settings, T.model].filter(Boolean).join('  ·  '); }
// steps of a run that is going on: several may have piled up on a busy machine, and are drawn once;
// after a drawing the page rests twice as long as that took, so that it always answers
let late = null, restedAt = 0;
function soon() { if (late === null) late = setTimeout(catchUp, Math.max(40, restedAt - performance.now())); }
async function catchUp() {
  const begin = performance.now(), count = T.steps.length;
  try {
    layOut(); heaviest(); charts.trace(T);
    await Promise.all([charts.run(), show(root.classList.contains('following') ? T.steps.length - 1 : i)]);
  } finally {
    late = null; restedAt = performance.now() + 2 * (performance.now() - begin);
    if (T.live && T.steps.length > count) soon();
  }
}
function tell(S, lines) { S.say = lines[S.say]; S.stop = lines[S.stop]; S.why = S.why.map((n) => lines[n]); }
function receive() {
  if (!props.value) return;
  const message = JSON.parse(props.value);
  if (message.kind === 'whatif') return whatIf(message);
  if (message.kind === 'go') { root.dataset.focus = message.focus; if (T) { rested = T.run + '/' + message.step; on.go(message.step - 1); } return; }
  if (message.kind === 'delta') {
    if (!T || message.run !== T.run || !T.live) return;
    if (message.from > T.steps.length) { trigger('resync', { run: T.run }); return; }
    T.texts.splice(message.base, message.texts.length, ...message.texts);
    T.lines.splice(message.lbase, message.lines.length, ...message.lines); message.steps.forEach((S) => tell(S, T.lines));
    T.steps.splice(message.from, message.steps.length, ...message.steps);
    soon();
    return;
  }
  clearTimeout(late); late = null;
  root.dataset.focus = message.focus || '';
  const wasLive = T && T.live && (T.run === message.run || T.run === message.was), isSame = wasLive || (T && T.run === message.run);
  if (!isSame) { pause(); locked = null; hideTip(true); }
  if (!T) rested = message.run + '/' + (message.at0 + 1); // Python knows where the page opens
  T = message; W = null; cache.clear(); T.steps.forEach((S) => tell(S, T.lines)); heaviest();
  if (!isSame || alive < 0 || wasLive) alive = T.life0 === undefined ? -1 : T.life0;
  root.classList.remove('whatif'); root.dataset.badge = ''; root.dataset.run = T.run; root.dataset.status = T.status;
  root.classList.toggle('live', T.live);
  if (T.live) root.classList.add('following');
  layOut(); layOutPrompt(); legend(); setFoot(); charts.trace(T); charts.run(); charts.light(-1); charts.life(alive);
  const stay = wasLive ? (root.classList.contains('following') ? T.steps.length - 1 : i) : T.live ? 0 : T.at0;
  if (!T.live) root.classList.remove('following');
  show(stay);
  if (T.whatif) whatIf(T.whatif);
}
function heaviest() { T.topMass = Math.max(1, ...T.steps.map((S) => S.mass[1] || 0)); }
label();
legend();
receive();
watch('value', receive);
document.addEventListener('fd-language', (e) => speak(e.detail));
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
if (props.follows) { // Python has to know the reader's language, too
  const kept = firstOf([asked.get('lang')]);
  if (kept && kept !== language) speak(kept);
  // and so have all other parts of the page
  window.fdLanguage = language; document.documentElement.lang = language;
  document.dispatchEvent(new CustomEvent('fd-language', { detail: language }));
  if (language !== languages[0]) asked.set('lang', language);
}
if (props.follows && asked.size) setTimeout(() => trigger('follow', { query: asked.toString() }), 0);
let width = root.clientWidth;
new ResizeObserver(() => { if (root.clientWidth && Math.abs(root.clientWidth - width) > 2) { width = root.clientWidth; redraw(); } }).observe(root);
// the chips are on the page before the charts' library is even asked for
requestAnimationFrame(() => setTimeout(() => {
  const start = () => { charts.start(window.Plotly); if (T) { charts.run(); charts.life(alive); show(i); } };
  if (window.Plotly) return start();
  const script = document.createElement('script');
  script.src = props.plotly; script.onload = start;
  script.onerror = () => { find('.fd-foot').textContent = w('no_charts'); };
  document.head.append(script);
}));
// a trace file may be dropped anywhere on the page
if (props.follows) {
  // gradio puts the field beside its button
  const field = () => { const load = document.querySelector('#fd-load'); return load && (load.querySelector('input[type=file]') || load.parentElement.querySelector('input[type=file]')); };
  const holds = (e) => e.dataTransfer && [...e.dataTransfer.types].includes('Files') && !e.target.closest('#fd-drop');
  document.addEventListener('dragover', (e) => { if (holds(e)) { e.preventDefault(); root.classList.add('dropping'); } });
  document.addEventListener('dragleave', (e) => { if (!e.relatedTarget) root.classList.remove('dropping'); });
  document.addEventListener('drop', (e) => {
    root.classList.remove('dropping');
    if (!holds(e)) return;
    e.preventDefault();
    const input = field();
    if (input) { input.files = e.dataTransfer.files; input.dispatchEvent(new Event('change', { bubbles: true })); }
  });
}
