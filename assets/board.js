// A board: blocks of text, tables, charts and matrices that Python has filled (app/board.py).
// Text reaches the page by textContent alone; colours are names of the palette ("@gamma").
const root = element.querySelector('.bd');
const kept = new Map();
const act = (name, value) => trigger('act', { name, value });
const make = (tag, cls, words) => { const e = document.createElement(tag); if (cls) e.className = cls; if (words !== undefined) e.textContent = words; return e; };
const colourOf = (name) => getComputedStyle(root).getPropertyValue('--fd-' + name).trim();
const inked = (part) => typeof part === 'string' && part[0] === '@' ? colourOf(part.slice(1))
  : Array.isArray(part) ? part.map(inked)
  : part && typeof part === 'object' ? Object.fromEntries(Object.entries(part).map(([k, v]) => [k, inked(v)])) : part;

function plotly(then) { // the charts' library is asked for when the first chart is there
  if (window.Plotly) return then(window.Plotly);
  let script = document.querySelector('script[data-fd-plotly]');
  if (!script) { script = document.createElement('script'); script.dataset.fdPlotly = 1; script.src = props.plotly; document.head.append(script); }
  script.addEventListener('load', () => then(window.Plotly));
}

const kinds = {
  text(box, b) { box.replaceChildren(...b.text.map((words, k) => make(b.tag && !k ? b.tag : 'p', b.tone ? 'bd-' + b.tone : '', words))); },
  code(box, b) { const pre = make('pre', 'bd-code', b.code); pre.tabIndex = 0; box.replaceChildren(...heading(b), pre); },
  badge(box, b) { const mark = make('b', 'bd-badge', b.badge); box.replaceChildren(mark, document.createTextNode(' ' + b.explain)); box.classList.toggle('bd-exact', b.badge === 'exact'); },
  stats(box, b) {
    const list = make('dl', 'bd-stats');
    for (const [label, value, note] of b.items) { const item = make('div'); item.append(make('dt', '', label), make('dd', '', value)); if (note) item.append(make('small', '', note)); list.append(item); }
    box.replaceChildren(...heading(b), list);
  },
  bars(box, b) {
    const list = make('div', 'bd-bars');
    for (const { label, value, shown, colour, note } of b.bars) {
      const row = make('div', 'bd-bar'), track = make('div', 'bd-track'), fill = make('i');
      fill.style.width = 100 * Math.min(1, value) + '%'; fill.style.background = colourOf(colour);
      track.append(fill); if (value > 1) track.append(make('em', '', b.beyond));
      row.append(make('span', 'bd-name', label), track, make('b', '', shown), make('small', '', note)); list.append(row);
    }
    box.replaceChildren(...heading(b), list);
  },
  choices(box, b) {
    const list = make('div', 'bd-choices' + (b.stacked ? ' stacked' : '')); list.setAttribute('role', 'group'); list.setAttribute('aria-label', b.title || b.name);
    for (const { value, label, mark, state, help } of b.options) {
      const button = make('button', state ? 'is-' + state : ''); button.type = 'button'; button.dataset.key = b.id + '/' + value;
      if (mark) button.append(make('i', '', mark));
      if (help) { button.title = help; button.setAttribute('aria-label', `${label}: ${help}`); }
      button.append(make('span', '', label)); button.setAttribute('aria-pressed', String(value === b.current)); button.disabled = !!b.locked;
      button.addEventListener('click', () => act(b.name, value)); list.append(button);
    }
    box.replaceChildren(...heading(b), list);
  },
  table(box, b) {
    if (!b.rows.length) { box.replaceChildren(...heading(b), make('p', 'bd-empty', b.empty)); return; }
    const scroll = make('div', 'bd-scroll'), table = make('table'), head = table.createTHead().insertRow(), body = table.createTBody();
    scroll.tabIndex = 0; scroll.setAttribute('role', 'region'); scroll.setAttribute('aria-label', b.title || 'table');
    b.columns.forEach((name, k) => { const th = make('th', b.words.includes(k) ? 'w' : '', name); th.scope = 'col'; head.append(th); });
    b.rows.forEach((row, r) => {
      const tr = body.insertRow(), pick = b.picks && b.picks[r] !== null ? b.picks[r] : null;
      row.forEach((cell, k) => {
        const td = tr.insertCell(); if (b.words.includes(k)) td.className = 'w';
        if (k === 0 && pick !== null) { const go = make('button', 'bd-link', cell); go.type = 'button'; go.dataset.key = b.id + '/' + r; go.title = b.pickHelp || ''; go.addEventListener('click', () => act(b.name, pick)); td.append(go); } else td.textContent = cell;
      });
    });
    scroll.append(table); box.replaceChildren(...heading(b), scroll, csv(b));
  },
  matrix(box, b) {
    const scroll = make('div', 'bd-scroll'), table = make('table', 'bd-matrix'), top = table.createTHead(), groups = top.insertRow(), head = top.insertRow(), why = make('p', 'bd-why', b.idle);
    why.setAttribute('aria-live', 'polite');
    groups.append(make('th'));
    for (let k = 0; k < b.columns.length;) { let n = k; while (n < b.columns.length && b.columns[n].group === b.columns[k].group) n++; const th = make('th', 'g', b.columns[k].group); th.colSpan = n - k; groups.append(th); k = n; }
    head.append(make('th'));
    b.columns.forEach((c, k) => { const th = make('th', 'c' + (k && b.columns[k - 1].group !== c.group ? ' edge' : '')); th.scope = 'col'; th.append(make('span', '', c.name)); th.title = c.help; head.append(th); });
    const body = table.createTBody(), rows = b.rows.map((row, r) => {
      const tr = body.insertRow(), name = make('th', 'r', row.name); name.scope = 'row'; tr.append(name); tr.tabIndex = r ? -1 : 0; tr.dataset.key = b.id + '/' + r;
      [...row.cells].forEach((cell, k) => { const td = tr.insertCell(); td.className = 'v' + cell + (k && b.columns[k - 1].group !== b.columns[k].group ? ' edge' : ''); td.textContent = { 0: '', 1: '●', 2: '◉' }[cell]; td.title = b.cells[cell].replace('{row}', () => row.name).replace('{column}', () => b.columns[k].help); });
      const enter = () => { why.textContent = row.why; rows.forEach((o) => o.classList.toggle('on', o === tr)); };
      tr.addEventListener('mouseenter', enter); tr.addEventListener('focus', () => { rows.forEach((o) => { o.tabIndex = o === tr ? 0 : -1; }); enter(); });
      tr.addEventListener('keydown', (e) => { const to = { ArrowDown: r + 1, ArrowUp: r - 1, Home: 0, End: b.rows.length - 1 }[e.key]; if (rows[to]) { e.preventDefault(); e.stopPropagation(); rows[to].focus(); } });
      return tr;
    });
    const said = { 0: 'no', 1: 'yes', 2: 'itself' }, saved = { ...b, columns: ['row', ...b.columns.map((c) => c.name)], rows: b.rows.map((row) => [row.name, ...[...row.cells].map((cell) => said[cell])]) };
    scroll.append(table); box.replaceChildren(...heading(b), why, scroll, csv(saved));
  },
  lanes(box, b, state) {
    const at = () => b.most * state.range.value / 1000;
    if (!state.range) {
      state.range = make('input'); Object.assign(state.range, { type: 'range', min: 0, max: 1000, value: 1000 }); 
      state.play = make('button', 'bd-play'); state.play.type = 'button'; state.now = make('span', 'bd-now');
      state.bar = make('div', 'bd-clock'); state.bar.append(state.play, state.range, state.now); state.list = make('div', 'bd-lanes');
      let frame = null;
      const words = () => kept.get(b.id).block.words, stop = () => { cancelAnimationFrame(frame); frame = null; state.play.textContent = words().play; };
      state.play.addEventListener('click', () => {
        if (frame) return stop();
        if (+state.range.value >= 1000) state.range.value = 0;
        const from = +state.range.value, begin = performance.now(); state.play.textContent = words().pause;
        const tick = (now) => { state.range.value = Math.min(1000, from + (now - begin) / 6); state.show(); if (+state.range.value >= 1000) return stop(); frame = requestAnimationFrame(tick); };
        frame = requestAnimationFrame(tick);
      });
      state.range.addEventListener('input', () => { stop(); state.show(); });
    }
    state.range.setAttribute('aria-label', b.words.range); if (state.play.textContent !== b.words.pause) state.play.textContent = b.words.play;
    const lanes = b.lanes.map((lane) => {
      const part = make('section', 'bd-lane'), text = make('div', 'bd-tokens' + (lane.mono ? ' mono' : '')), count = make('small'), title = make('h4', '', lane.label);
      title.append(count);
      const chips = lane.texts.map(([indent, core, rest], p) => { const chip = make('span', 'bd-tk s' + lane.states[p] + (lane.differs[p] === '1' ? ' differs' : ''), core); chip.title = lane.tips[p]; chip.dataset.m = lane.marks[p]; text.append(indent, chip, rest); return chip; });
      part.append(title, text); return { part, chips, count, lane };
    });
    state.show = () => {
      const t = at(), last = +state.range.value >= 1000;
      state.now.textContent = `${b.digits ? t.toFixed(b.digits) : Math.floor(t + 1e-9)} ${b.unit}`;
      for (const { chips, count, lane } of lanes) { let n = 0; chips.forEach((chip, p) => { const is = lane.at[p] >= 0 && (last || lane.at[p] <= t + 1e-9); n += is; chip.classList.toggle('off', !is); }); count.textContent = ' ' + b.words.written.replace('{count}', n); }
    };
    state.list.replaceChildren(...lanes.map((l) => l.part));
    if (!box.contains(state.list)) box.replaceChildren(...heading(b), state.bar, state.list);
    state.show();
  },
  chart(box, b, state) {
    if (!state.plot) {
      state.plot = make('div', 'bd-plot'); state.over = make('div', 'bd-over'); state.area = make('div', 'bd-area'); state.area.append(state.plot, state.over); state.head = make('div');
      box.replaceChildren(state.head, state.area);
    }
    state.head.replaceChildren(...heading(b)); state.area.style.height = b.height + 'px'; state.area.setAttribute('role', 'img'); state.area.setAttribute('aria-label', b.spoken || b.title);
    plotly((P) => {
      if (kept.get(b.id) === undefined || kept.get(b.id).block !== b || !state.area.clientWidth) return;
      const quiet = colourOf('quiet'), axis = { gridcolor: colourOf('grid'), linecolor: colourOf('axis'), zeroline: false, fixedrange: true, automargin: false, ticks: '', tickfont: { color: quiet } };
      const layout = inked(b.layout), title = (a) => (a && typeof a.title === 'string' ? { title: { text: a.title, standoff: 6, font: { color: quiet, size: 12 } } } : {});
      for (const name of Object.keys(layout)) if (/^[xy]axis/.test(name)) layout[name] = { ...axis, ...layout[name], ...title(layout[name]) };
      P.react(state.plot, inked(b.marks), {
        font: { family: colourOf('font'), size: 12, color: quiet }, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', showlegend: false, hovermode: 'closest', dragmode: false, uirevision: 'keep',
        hoverlabel: { bgcolor: colourOf('panel'), bordercolor: colourOf('line'), font: { color: colourOf('ink'), family: colourOf('font') } },
        margin: { l: 44, r: 12, t: 8, b: 40 }, ...layout, width: state.area.clientWidth, height: b.height,
      }, { displayModeBar: false, responsive: false, doubleClick: false, scrollZoom: false }).then(() => {
        lines(b, state);
        if (!state.listens) { state.listens = true; state.plot.on('plotly_click', (e) => { const c = e.points[0].customdata; if (kept.get(b.id).block.name && c !== undefined) act(kept.get(b.id).block.name, c); }); }
        root.dataset.drawn = +(root.dataset.drawn || 0) + 1;
      });
    });
  },
};
// the rows as they stand, as a file: RFC 4180, UTF-8 with its mark so that spreadsheets read it
function csv(b) {
  const cell = (words) => (/[",\r\n]/.test(words) ? '"' + words.replace(/"/g, '""') + '"' : words), button = make('button', 'bd-csv', 'CSV');
  button.type = 'button'; button.title = `Save this table: ${b.title || b.id}.csv`; button.setAttribute('aria-label', button.title); button.dataset.key = b.id + '/csv';
  button.addEventListener('click', () => {
    const words = [b.columns, ...b.rows].map((row) => row.map(cell).join(',')).join('\r\n') + '\r\n', link = make('a');
    link.href = URL.createObjectURL(new Blob(['\ufeff', words], { type: 'text/csv' })); link.download = `${b.id}.csv`; link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  return button;
}
function heading(b) { const parts = []; if (b.title) parts.push(make('h3', '', b.title)); if (b.note) parts.push(make('p', 'bd-note', b.note)); return parts; }

// thresholds over a chart: dragged by pointer, moved by arrow keys
function lines(b, state) {
  const full = state.plot._fullLayout, had = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
  if (state.held) return place(b, state, full);
  state.over.replaceChildren(...(b.lines || []).map((l) => {
    const e = make('span', `fd-line bd-line fd-${l.colour} on-${l.axis}`); e.append(make('b', '')); e.dataset.line = l.drag; e.style.display = 'block';
    if (!l.drag) { e.style.pointerEvents = 'none'; return e; }
    e.tabIndex = 0; e.setAttribute('role', 'slider'); e.setAttribute('aria-label', l.name); e.setAttribute('aria-valuemin', 0); e.setAttribute('aria-valuemax', 1); e.setAttribute('aria-orientation', l.axis === 'y' ? 'vertical' : 'horizontal'); e.dataset.key = b.id + '/' + l.drag;
    const now = () => kept.get(b.id).block.lines.find((o) => o.drag === l.drag);
    const set = (v) => { v = Math.round(Math.min(1, Math.max(0, v)) * 100) / 100; now().value = v; place(kept.get(b.id).block, state, state.plot._fullLayout); send(l.drag, v); };
    e.addEventListener('pointerdown', (p) => { p.preventDefault(); e.focus(); e.setPointerCapture(p.pointerId); state.held = true; });
    e.addEventListener('pointermove', (p) => { if (!state.held) return; const f = state.plot._fullLayout, box = state.plot.getBoundingClientRect(); set(l.axis === 'y' ? f.yaxis.p2l(p.clientY - box.top - f.yaxis._offset) : f.xaxis.p2l(p.clientX - box.left - f.xaxis._offset)); });
    const end = () => { state.held = false; }; e.addEventListener('pointerup', end); e.addEventListener('pointercancel', end);
    e.addEventListener('keydown', (k) => { const move = { ArrowUp: .01, ArrowRight: .01, ArrowDown: -.01, ArrowLeft: -.01, PageUp: .1, PageDown: -.1 }[k.key]; if (move === undefined) return; k.preventDefault(); k.stopPropagation(); set(now().value + move); });
    return e;
  }));
  place(b, state, full);
  if (had) refocus(had);
}
function place(b, state, full) {
  (b.lines || []).forEach((l, k) => {
    const e = state.over.children[k], ax = full.xaxis, ay = full.yaxis; if (!e) return;
    if (l.axis === 'y') Object.assign(e.style, { left: ax._offset + 'px', width: ax._length + 'px', top: ay._offset + ay.l2p(l.value) + 'px' });
    else Object.assign(e.style, { left: ax._offset + ax.l2p(l.value) + 'px', top: ay._offset + 'px', height: ay._length + 'px' });
    e.firstElementChild.textContent = `${l.name} ${l.value.toFixed(2)}${l.drag ? (l.axis === 'y' ? ' ↕' : ' ↔') : ''}`; e.setAttribute('aria-valuenow', l.value.toFixed(2));
  });
}
const sending = {};
function send(name, value) { const s = sending[name] = sending[name] || { last: 0 }; clearTimeout(s.timer); const go = () => { s.last = Date.now(); act(name, value); }; if (Date.now() - s.last > 90) go(); else s.timer = setTimeout(go, 90); }
function refocus(key) { const again = root.querySelector(`[data-key="${CSS.escape(key)}"]`); if (again && again !== document.activeElement) again.focus({ preventScroll: true }); }

function receive() {
  if (!props.value) return;
  const message = JSON.parse(props.value), seen = new Set(), focused = root.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  message.blocks.forEach((block, k) => {
    let part = kept.get(block.id);
    if (part && part.block.kind !== block.kind) { part.box.remove(); part = null; }
    if (!part) { part = { box: make('section', ''), state: {} }; kept.set(block.id, part); }
    part.block = block; part.box.className = `bd-block bd-${block.kind}-block span${block.span || 12}`; part.box.dataset.block = block.id; seen.add(block.id);
    if (root.children[k] !== part.box) root.insertBefore(part.box, root.children[k] || null);
    kinds[block.kind](part.box, block, part.state);
  });
  for (const [id, part] of kept) if (!seen.has(id)) { part.box.remove(); kept.delete(id); }
  if (focused) refocus(focused);
  root.dataset.key = message.key;
  if (message.scroll) root.scrollIntoView({ block: 'start' });
}
receive();
watch('value', receive);
const again = () => { if (root.offsetParent) for (const { box, block, state } of kept.values()) if (block.kind === 'chart' || block.kind === 'bars') kinds[block.kind](box, block, state); };
new MutationObserver(again).observe(document.body, { attributes: true, attributeFilter: ['class'] });
let width = root.clientWidth;
new ResizeObserver(() => { if (root.clientWidth && Math.abs(root.clientWidth - width) > 2) { width = root.clientWidth; again(); } }).observe(root);
