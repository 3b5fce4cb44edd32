// Keeps the page live. Without this script the page refreshes itself every two seconds.
"use strict";
(() => {
  const body = document.body, said = document.getElementById("connection");
  const now = (state, words) => { body.dataset.connection = state; said.textContent = words; };

  // Changes only what differs, so that focus, selection and transitions survive.
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.id === b.id;
  const become = (old, next) => {
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== next.data) old.data = next.data;
      return;
    }
    for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    const [was, will] = [[...old.childNodes], [...next.childNodes]];
    will.forEach((child, n) => {
      if (n >= was.length) old.append(child);
      else if (alike(was[n], child)) become(was[n], child);
      else was[n].replaceWith(child);
    });
    was.slice(will.length).forEach((child) => child.remove());
  };

  const events = new EventSource(body.dataset.events);
  events.onopen = () => now("live", "live");
  // A stream that was rejected does not reconnect by itself.
  const again = () => setTimeout(() => location.reload(), 5000);
  events.onerror = () => {
    now("lost", "connection lost; reconnecting");
    if (events.readyState === EventSource.CLOSED) again();
  };
  events.onmessage = ({ data }) => {
    const next = new DOMParser().parseFromString(data, "text/html").querySelector("main");
    if (next) become(document.querySelector("main"), next);
    now("live", "live");
  };
})();
