// Gradio's "Loading…" sign counts its seconds in a loop of animation frames that nobody ends when
// the sign is gone, so each page would draw 60 times a second for as long as it is open. The loop
// keeps to the browser's own function; everybody else's requests pass through here and are known.
(() => {
  const ask = window.requestAnimationFrame, known = new Set();
  window.requestAnimationFrame = (call) => { const id = ask(call); known.add(id); return id; };
  const end = () => {
    window.requestAnimationFrame = ask;
    const last = ask(() => {}); // numbers are given in turn; what was asked for long ago is over
    for (let id = last - 1; id > Math.max(0, last - 1000); id--) if (!known.has(id)) cancelAnimationFrame(id);
  };
  // a while after the sign has made room for the page
  const wait = () => setTimeout(document.querySelector('.fd .tk') ? () => setTimeout(end, 1000) : wait, 200);
  wait();
})();
