// Gradio's "Loading…" sign counts its seconds in a loop of animation frames that nobody ends when
// the sign is gone, so each page would draw 60 times a second for as long as it is open.
//
// The loop is known by what it does: it looks at the clock, then at once asks for the next frame.
// Its request is the number that the browser gives next; nobody else's is touched.
(() => {
  const STEADY = 20, MOST = 300; // frames in a row that make a loop, and after which we give up
  const end = () => {
    const ask = window.requestAnimationFrame, now = performance.now, clock = performance;
    const number = () => { const id = ask(() => {}); cancelAnimationFrame(id); return id; };
    let seen = false, steady = 0, frames = 0;
    clock.now = () => {
      const before = number();
      // after this callback: was one frame asked for meanwhile? (two numbers went to ourselves)
      queueMicrotask(() => {
        if (number() !== before + 2) return;
        seen = true;
        if (steady >= STEADY) cancelAnimationFrame(before + 1);
      });
      return now.call(clock);
    };
    const look = () => {
      frames += 1;
      if (steady >= STEADY || frames >= MOST) { clock.now = now; return; }
      steady = seen ? steady + 1 : 0;
      seen = false;
      ask(look);
    };
    ask(look);
  };
  // a while after the sign has made room for the page
  const wait = () => setTimeout(document.querySelector('.fd .tk') ? () => setTimeout(end, 1000) : wait, 200);
  wait();
})();
