// The four small charts. Plotly draws them once and re-draws only what a step changes; lines that
// move (current step, thresholds, accept boundary, picked position) are plain elements above them.
function makeCharts(root, states, on) {
  const part = (name) => root.querySelector(name);
  const boxes = { ladder: part('.fd-ladder'), attention: part('.fd-attention'), map: part('.fd-map'), progress: part('.fd-progress'), life: part('.fd-life') };
  const plot = {}, over = {};
  for (const name in boxes) {
    over[name] = boxes[name].querySelector('.fd-over');
    plot[name] = document.createElement('div');
    plot[name].style.cssText = 'position:absolute;inset:0';
    over[name].before(plot[name]);
  }
  const config = { displayModeBar: false, responsive: false, doubleClick: false, scrollZoom: false };
  let P = null, colour = null, T = null, shown = -1, drawn = new Set();

  function readColours() {
    const style = getComputedStyle(root);
    const get = (name) => style.getPropertyValue('--fd-' + name).trim();
    colour = { cells: states.map((s) => get(s.key + '-cell')) };
    for (const name of ['panel', 'ink', 'quiet', 'line', 'grid', 'axis', 'tracked', 'font']) colour[name] = get(name);
    colour.lines = ['ink', 'epsilon', 'mismatch-cell', 'gamma', 'tracked', 'quiet'].map(get);
  }
  const axis = (more) => ({ gridcolor: colour.grid, linecolor: colour.axis, zeroline: false, fixedrange: true, automargin: false, ticklabeloverflow: 'allow', ticks: '', tickfont: { color: colour.quiet }, ...more });
  const layout = (more) => ({
    font: { family: colour.font, size: 12, color: colour.quiet }, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    showlegend: false, hovermode: 'closest', dragmode: false, uirevision: 'keep', bargap: 0.18, ...more });
  const title = (text) => ({ text, font: { color: colour.quiet, size: 12 }, standoff: 6 });
  // sizes as the browser tells them: to ask for one after a change makes it lay out the whole page
  const sizes = new Map(), sized = new ResizeObserver((all) => { for (const one of all) sizes.set(one.target, { width: Math.round(one.contentRect.width), height: Math.round(one.contentRect.height) }); });
  for (const name in over) sized.observe(over[name]);
  const size = (name) => { const box = over[name]; if (!sizes.has(box)) sizes.set(box, { width: box.clientWidth, height: box.clientHeight }); return sizes.get(box); };
  const react = (name, data, more, height = size(name).height) => P.react(plot[name], data, { ...layout(more), width: size(name).width, height }, config).then(() => listen(name));
  // a chart takes some 20 ms, so between two of them the page gets its chance to answer
  const turn = new MessageChannel(), turns = [];
  turn.port1.onmessage = () => turns.shift()();
  const breathe = () => new Promise((go) => { turns.push(go); turn.port2.postMessage(0); });

  function ladder(S) {
    const n = S.w.length, x = [...Array(n).keys()];
    const y = x.map((k) => (S.mc[k] >= 0 ? S.mc[k] : S.r[k] === 0 ? S.c[k] : null)).map((v) => v === null ? null : v / 1000);
    const differs = x.filter((k) => S.m[k] >= 0 && S.m[k] !== S.x[k]);
    const span = Math.max(T.window, 4), mark = Math.max(4, Math.min(16, size('ladder').width / span * 0.62));
    return react('ladder', [
      { type: 'bar', x, y, marker: { color: x.map((k) => colour.cells[+S.v[k]]), opacity: x.map((k) => ({ 1: 0.45, 8: 0.8 })[S.v[k]] || 1), line: { width: 0 } }, hoverinfo: 'none' },
      { type: 'scatter', mode: 'markers', x, y: S.c.map((c) => c / 1000), hoverinfo: 'none', marker: { symbol: 'line-ew', size: mark, line: { width: 2, color: colour.ink } } },
      { type: 'scatter', mode: 'markers', x: differs, y: differs.map((k) => S.mc[k] / 1000 + 0.045), hoverinfo: 'none', marker: { symbol: 'x-thin', size: 7, line: { width: 1.5, color: colour.ink } } },
    ], {
      margin: { l: 34, r: 6, t: 4, b: 40 },
      xaxis: axis({ range: [-0.6, span - 0.4], title: title(on.w('drafts_axis')), showgrid: false, dtick: span > 40 ? 10 : span > 12 ? 5 : 1, tick0: 0 }),
      yaxis: axis({ range: [0, 1.3], tickvals: [0, 0.25, 0.5, 0.75, 1], ticktext: ['0', '.25', '.5', '.75', '1'] }),
    }).then(() => marks(S));
  }
  function heading(isChecked) {
    boxes.ladder.querySelector('h3').textContent = on.w(isChecked ? 'ladder' : 'drafts');
    boxes.ladder.querySelector('p').textContent = on.w(isChecked ? 'ladder_note' : 'drafts_note');
  }
  function marks(S) { // accept boundary, its name, and the two thresholds
    const { xaxis: ax, yaxis: ay } = plot.ladder._fullLayout;
    const X = (v) => ax._offset + ax.l2p(v), Y = (v) => ay._offset + ay.l2p(v);
    const line = (element, at, low) => Object.assign(element.style, { display: at === null ? 'none' : 'block', left: X(at) - 1 + 'px', top: Y(low) + 'px', height: Y(0) - Y(low) + 'px' });
    const [split, stop, name] = ['.fd-split', '.fd-stop', '.fd-stop-name'].map((c) => over.ladder.querySelector(c));
    line(split, S.s > S.d ? S.d - 0.5 : null, 1.02);
    const stopName = on.line(S.stop);
    line(stop, stopName ? S.a - 0.5 : null, 1.27);
    name.textContent = stopName;
    const width = size('ladder').width, isRight = X(S.a - 0.5) > width * 0.42;
    Object.assign(name.style, { display: stopName ? 'block' : 'none', left: isRight ? 'auto' : X(S.a - 0.5) + 'px', right: isRight ? width - X(S.a - 0.5) + 'px' : 'auto', textAlign: isRight ? 'right' : 'left' });
    threshold('gamma', on.thresholds().gamma);
    threshold('eps', on.thresholds().eps);
  }
  function threshold(which, value) {
    const element = over.ladder.querySelector(which === 'gamma' ? '.fd-gamma' : '.fd-epsilon');
    element.style.display = value === null || value === undefined ? 'none' : 'block';
    if (value === null || value === undefined || !plot.ladder._fullLayout) return;
    const { xaxis: ax, yaxis: ay } = plot.ladder._fullLayout;
    Object.assign(element.style, { left: ax._offset + 'px', width: ax._length + 'px', top: ay._offset + ay.l2p(value) + 'px' });
    element.firstElementChild.textContent = (which === 'gamma' ? 'γ ' : 'ε ') + value.toFixed(2) + ' ↕';
    element.setAttribute('aria-valuenow', value.toFixed(2));
  }
  function dragThreshold(which, element) {
    const set = (v) => { v = Math.round(Math.min(1, Math.max(0, v)) * 100) / 100; threshold(which, v); on.threshold(which, v); };
    element.addEventListener('pointerdown', (e) => { e.preventDefault(); element.focus(); element.setPointerCapture(e.pointerId); element.classList.add('dragged'); });
    element.addEventListener('pointermove', (e) => {
      if (!element.classList.contains('dragged')) return;
      const ay = plot.ladder._fullLayout.yaxis;
      set(ay.p2l(e.clientY - plot.ladder.getBoundingClientRect().top - ay._offset));
    });
    const end = () => { if (element.classList.contains('dragged')) { element.classList.remove('dragged'); on.threshold(which, null); } };
    element.addEventListener('pointerup', end);
    element.addEventListener('pointercancel', end);
    element.addEventListener('keydown', (e) => {
      const move = { ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01, PageUp: 0.1, PageDown: -0.1 }[e.key];
      if (move === undefined) return;
      e.preventDefault(); e.stopPropagation();
      set(on.thresholds()[which] + move); on.threshold(which, null);
    });
  }

  function attention(S) {
    const rows = S.att, n = T.rows, y = rows.map((_, k) => k);
    const note = boxes.attention.querySelector('p');
    note.textContent = !rows.length ? on.w('attention_none')
      : S.full ? on.w('attention_full')
      : on.w('attention_note', { count: S.low.length, held: Math.round(S.held / 10) });
    const solid = rows.map((r) => r[3] > 0);
    return react('attention', [{
      type: 'bar', orientation: 'h', y, x: rows.map((r) => r[2] / 1000), hoverinfo: 'none',
      marker: { color: solid.map((s) => (s ? colour.tracked : 'rgba(0,0,0,0)')), line: { width: 1.2, color: solid.map((s) => (s ? colour.tracked : colour.axis)) } },
    }], {
      margin: { l: 116, r: 10, t: 4, b: 40 },
      xaxis: axis({ range: [0, T.most * 1.12], title: title(on.w('attention_axis')), tickformat: T.most < 0.05 ? '.1%' : '.0%', nticks: 4 }),
      yaxis: axis({ range: [n - 0.4, -0.6], tickvals: y, ticktext: rows.map((r) => `${r[0]} ${escapeText(short(T.texts[r[1]][0]))}`), showgrid: false }),
    }).then(() => entered(rows));
  }
  function entered(rows) { // "new" behind a bar; as the chart's own text it costs as much as the chart
    const { xaxis: ax, yaxis: ay } = plot.attention._fullLayout;
    for (const word of over.attention.querySelectorAll('.fd-new')) word.remove();
    rows.forEach((r, k) => {
      if (r[3] !== 2) return;
      const word = document.createElement('span');
      word.className = 'fd-new'; word.textContent = on.w('new');
      Object.assign(word.style, { left: ax._offset + ax.l2p(r[2] / 1000) + 4 + 'px', top: ay._offset + ay.l2p(k) + 'px' });
      over.attention.append(word);
    });
  }

  let latest = 0;
  async function run() { // the run map and the tokens per step share their rows
    const mine = ++latest, n = T.steps.length, last = Math.max(n, T.live ? 8 : 3), height = Math.max(190, Math.min(380, 60 + last * 7));
    for (const name of ['map', 'progress']) boxes[name].querySelector('.fd-plot').style.height = height + 'px';
    await breathe();
    if (mine !== latest) return;
    const y = T.steps.map((_, k) => k + 1), S = T.steps.map((_, k) => on.step(k));
    const rows = axis({ range: [last + 0.5, 0.5], dtick: last > 24 ? 10 : last > 12 ? 5 : 1, tick0: 0, showgrid: false });
    const margin = { l: 34, r: 6, t: 6, b: 40 };
    boxes.progress.querySelector('p').textContent = on.w('progress_note', { count: n ? S[n - 1].pass : 0 });
    const taken = Math.max(0, ...S.map((s) => s.out.length));
    const most = Math.max(4, ...S.map((s) => s.n[0] + s.n[1] + s.n[2]));
    const bar = (k, code) => ({ type: 'bar', orientation: 'h', y, x: S.map((s) => s.n[k]), marker: { color: colour.cells[code] }, hoverinfo: 'none' });
    const scale = states.flatMap((s, k) => [[k / states.length, colour.cells[k]], [(k + 1) / states.length, colour.cells[k]]]);
    await react('map', [{ type: 'heatmap', z: S.map((s) => [...s.row].map((c) => parseInt(c, 16))), y, zmin: -0.5, zmax: states.length - 0.5, colorscale: scale, showscale: false, hoverinfo: 'none', xgap: T.n <= 64 ? 1 : 0, ygap: n <= 24 ? 1 : 0 }],
        { margin, xaxis: axis({ range: [-0.5, T.n - 0.5], title: title(on.w('map_axis')), showgrid: false, constrain: 'domain' }), yaxis: rows }, height);
    now(shown);
    await breathe();
    if (mine !== latest) return;
    await react('progress', [bar(0, 2), bar(1, 3), bar(2, 6), ...(taken ? [{ ...bar(0, 10), x: S.map((s) => -s.out.length) }] : []), { type: 'scatter', mode: 'lines', xaxis: 'x2', y, x: S.map((s) => s.pass), line: { color: colour.axis, width: 1.5 }, hoverinfo: 'none' }],
        { margin, barmode: 'stack', xaxis: axis({ range: [-1.1 * taken, most * 1.1], title: title(on.w(taken ? 'progress_taken_axis' : 'progress_axis')), dtick: Math.max(1, Math.ceil(most / 5)), tick0: 0 }), xaxis2: axis({ overlaying: 'x', side: 'top', range: [0, Math.max(4, 1.1 * (n ? S[n - 1].pass : 0))], showgrid: false, showticklabels: false }), yaxis: { ...rows, matches: undefined } }, height);
    now(shown);
  }
  function now(i) {
    for (const name of ['map', 'progress']) {
      const ay = plot[name]._fullLayout && plot[name]._fullLayout.yaxis, ax = ay && plot[name]._fullLayout.xaxis, bar = over[name].querySelector('.fd-now');
      if (!ay || i < 0 || !T.steps.length) { bar.style.display = 'none'; continue; }
      const top = ay._offset + ay.l2p(i + 0.5), bottom = ay._offset + ay.l2p(i + 1.5);
      Object.assign(bar.style, { display: 'block', left: ax._offset - 2 + 'px', width: ax._length + 4 + 'px', right: 'auto', top: top - 1 + 'px', height: bottom - top + 2 + 'px' });
    }
    const veil = over.map.querySelector('.fd-unknown'), first = on.unknownFrom(), ay = plot.map._fullLayout && plot.map._fullLayout.yaxis;
    veil.style.display = ay && first >= 0 ? 'block' : 'none';
    if (ay && first >= 0) { const top = ay._offset + ay.l2p(first + 0.5); Object.assign(veil.style, { left: '34px', right: '6px', top: top + 'px', height: ay._offset + ay._length - top + 'px' }); }
  }

  // one position through all steps: what it drafted, what was checked, what became of it
  const dashes = ['solid', 'dash', 'dot', 'dashdot', 'longdash', 'longdashdot'];
  let picked = -1;
  function lived(offset) { // [step index, place in the step, the step as judged now]
    return T.steps.flatMap((s, k) => { const S = s.w.includes(offset) ? on.step(k) : s, n = S.w.indexOf(offset); return n < 0 ? [] : [[k, n, S]]; });
  }
  async function life(offset) {
    const box = boxes.life, note = box.querySelector('p'), moments = T && offset >= 0 && offset < T.n ? lived(offset) : [];
    picked = offset;
    box.querySelector('h3').textContent = on.w('life') + (moments.length ? ' · ' + on.w('position', { p: offset }) : '');
    note.textContent = moments.length ? on.w('life_note') + ' ' + on.w('life_idle') : offset >= 0 && T && T.steps.length ? on.w('life_never') : on.w('life_idle');
    const name = (t) => T.texts[t][0], share = (v) => (v < 0 ? '–' : (v / 1000).toFixed(3));
    const head = document.createElement('tr'), cell = (tag, words) => { const e = document.createElement(tag); e.textContent = words; return e; };
    head.append(...on.w('life_columns').map((words) => Object.assign(cell('th', words), { scope: 'col' })));
    box.querySelector('thead').replaceChildren(head);
    box.querySelector('tbody').replaceChildren(...moments.map(([k, n, S]) => {
      const row = document.createElement('tr'), go = cell('button', S.i);
      go.type = 'button'; go.dataset.go = k; row.dataset.k = k; row.className = 'v' + S.v[n];
      const first = document.createElement('td'); first.append(go);
      row.append(first, cell('td', name(S.x[n])), cell('td', share(S.c[n])), cell('td', S.m[n] < 0 ? '–' : name(S.m[n])), cell('td', share(S.mc[n])), cell('td', `${states[S.v[n]].mark} ${on.line(S.why[n])}`.trim()));
      return row;
    }));
    mark();
    if (!P || !T) return;
    const trace = T;
    await breathe();
    if (picked !== offset || T !== trace) return;
    const chance = (S, n, t) => { if (S.x[n] === t) return S.c[n]; for (let a = 0; a < S.alt[n].length; a += 2) if (S.alt[n][a] === t) return S.alt[n][a + 1]; return null; };
    const rivals = (T.rivals && T.rivals[offset]) || [], x = moments.map(([k]) => k + 1), end = T.at[offset];
    const lines = rivals.map((t, r) => { const y = moments.map(([, n, S]) => chance(S, n, t)); return { type: 'scatter', mode: 'lines+markers+text', x, y: y.map((v) => (v === null ? null : v / 1000)), text: y.map((v, k) => (v !== null && (!r || v >= 60) && (k + 1 === y.length || y[k + 1] === null) ? escapeText(short(name(t))) : '')), textposition: 'middle right', textfont: { color: colour.lines[r], size: 12 }, cliponaxis: false, connectgaps: false, line: { color: colour.lines[r], width: r ? 1.4 : 2.2, dash: dashes[r] }, marker: { color: colour.lines[r], size: moments.map(([, n, S]) => (S.x[n] === t ? 8 : 3)) }, hoverinfo: 'none' }; });
    const checks = moments.filter(([, n, S]) => S.mc[n] >= 0);
    await react('life', [...lines, { type: 'scatter', mode: 'markers', x: checks.map(([k]) => k + 1), y: checks.map(([, n, S]) => S.mc[n] / 1000), marker: { symbol: checks.map(([, n, S]) => (S.m[n] === S.x[n] ? 'diamond-open' : 'x-thin')), size: 11, line: { width: 1.8, color: colour.ink }, color: colour.ink }, hoverinfo: 'none' }], {
      margin: { l: 34, r: 76, t: 8, b: 40 },
      shapes: end >= 0 ? [{ type: 'line', x0: end + 1, x1: end + 1, y0: 0, y1: 1.04, line: { color: colour.ink, width: 1.5 } }] : [],
      xaxis: axis({ range: x.length ? [x[0] - 0.6, Math.max(x[x.length - 1], x[0] + 2) + 0.6] : [0.5, 3.5], title: title(on.w('life_axis')), dtick: x.length > 24 ? 10 : x.length > 10 ? 5 : 1, tick0: 0, showgrid: false }),
      yaxis: axis({ range: [0, 1.08], tickvals: [0, 0.25, 0.5, 0.75, 1], ticktext: ['0', '.25', '.5', '.75', '1'] }),
    });
    mark();
  }
  function mark() { // the present step in the lifeline
    for (const row of boxes.life.querySelectorAll('tbody tr')) row.classList.toggle('now', +row.dataset.k === shown);
    const bar = over.life.querySelector('.fd-now'), full = plot.life._fullLayout, here = full && shown >= 0 && shown + 1 >= full.xaxis.range[0] && shown + 1 <= full.xaxis.range[1];
    if (!here) { bar.style.display = 'none'; return; }
    const ax = full.xaxis, a = ax._offset + ax.l2p(shown + 0.5), b = ax._offset + ax.l2p(shown + 1.5);
    Object.assign(bar.style, { display: 'block', left: a + 'px', width: b - a + 'px', top: full.yaxis._offset + 'px', height: full.yaxis._length + 'px' });
  }

  function light(offset) { // one position in every chart; -1 for none
    const S = shown >= 0 && T && T.steps[shown] ? on.step(shown) : null;
    const box = (name, axisName, from, to) => {
      const pick = over[name].querySelector('.fd-pick'), full = plot[name]._fullLayout;
      if (from === null || !full) { pick.style.display = 'none'; return; }
      const a = full[axisName], p = a._offset + a.l2p(from), q = a._offset + a.l2p(to), other = full[axisName === 'xaxis' ? 'yaxis' : 'xaxis'];
      const across = axisName === 'xaxis' ? { left: p + 'px', width: Math.max(2, q - p) + 'px', top: other._offset + 'px', height: other._length + 'px' } : { top: p + 'px', height: q - p + 'px', left: '0px', width: '100%' };
      Object.assign(pick.style, { display: 'block', ...across });
    };
    const k = S ? S.w.indexOf(offset) : -1, row = S ? S.att.findIndex((r) => r[0] === offset + T.p0) : -1;
    box('ladder', 'xaxis', k < 0 ? null : k - 0.5, k + 0.5);
    box('attention', 'yaxis', row < 0 ? null : row - 0.5, row + 0.5);
    box('map', 'xaxis', offset < 0 || !T ? null : offset - 0.5, offset + 0.5);
  }
  const short = (text) => (text.length > 11 ? text.slice(0, 10) + '…' : text);
  const escapeText = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
  function listen(name) { // once, when the chart exists
    if (drawn.has(name)) return;
    drawn.add(name);
    const point = (e) => e.points[0];
    const offset = { ladder: (p) => on.step(shown).w[p.x], attention: (p) => T.steps[shown].att[p.y][0] - T.p0, map: (p) => p.x, progress: () => -1, life: () => picked }[name];
    plot[name].on('plotly_hover', (e) => on.hover(offset(point(e)), name === 'map' ? point(e).y - 1 : shown));
    plot[name].on('plotly_unhover', () => on.hover(null));
    plot[name].on('plotly_click', (e) => { if (name === 'map' || name === 'progress') on.go(point(e).y - 1); else if (name === 'life') on.go(point(e).x - 1); else on.lock(offset(point(e))); });
  }
  dragThreshold('gamma', over.ladder.querySelector('.fd-gamma'));
  dragThreshold('eps', over.ladder.querySelector('.fd-epsilon'));

  return {
    ready: () => P !== null,
    start(plotly) { P = plotly; readColours(); },
    trace(trace) {
      T = trace; heading(T.gamma !== null); picked = -1;
      T.rows = Math.max(6, ...T.steps.map((s) => s.att.length)); T.most = Math.max(0.02, ...T.steps.flatMap((s) => s.att.map((r) => r[2]))) / 1000; if (T.most > 1) T.most = 1;
    },
    run: () => (P ? run() : null),
    async step(i) { shown = i; if (!P || !T.steps[i]) return; const S = on.step(i); now(i); mark(); await ladder(S); await attention(S); },
    light, threshold, life, words() { if (T) heading(T.gamma !== null); },
    async redraw() { if (!P || !T) return; readColours(); for (const name in plot) if (plot[name].data) P.purge(plot[name]); drawn.clear(); await run(); await life(picked); if (T.steps[shown]) { await ladder(on.step(shown)); await attention(on.step(shown)); } },
  };
}
