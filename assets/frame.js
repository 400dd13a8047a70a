const frame = element.querySelector('iframe');
const shade = () => { if (frame.contentWindow) frame.contentWindow.postMessage({ dark: document.body.classList.contains('dark') }, '*'); };
const set = () => { frame.style.visibility = props.value ? 'visible' : 'hidden'; frame.srcdoc = props.value ? JSON.parse(props.value) : ''; };
frame.addEventListener('load', shade);
addEventListener('message', (e) => {
  if (e.source === frame.contentWindow && Number.isFinite(e.data.height)) frame.style.height = Math.min(2000, Math.max(200, e.data.height)) + 'px';
});
new MutationObserver(shade).observe(document.body, { attributes: true, attributeFilter: ['class'] });
set();
watch('value', set);
