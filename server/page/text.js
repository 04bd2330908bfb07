// Small things that every module uses.

export const byId = (id) => document.getElementById(id);

// element("p", {class: "dim"}, "text", child, ...)
export function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

// A field of a number: what is typed counts at once, and is shown as it was understood when the reader leaves it.
export function listenNumber(input, read, write) {
  input.addEventListener("input", () => { if (input.value !== "") write(input.value); });
  input.addEventListener("change", () => { input.value = read(); });
}

// Nothing is written over what the reader is typing.
export function showNumber(input, value) {
  if (input !== document.activeElement) input.value = value;
}

// A button that has nothing to do now keeps the focus, which a disabled one would drop.
export const enable = (button, can) => button.setAttribute("aria-disabled", !can);
export function listenPress(button, pressed) {
  button.addEventListener("click", (e) => { if (button.ariaDisabled !== "true") pressed(e); });
}

export const bytesOf = (text) => new TextEncoder().encode(text);

export function percent(logprob) {
  const p = 100 * Math.exp(logprob);
  return p >= 10 ? p.toFixed(0) + " %" : p >= 0.1 ? p.toFixed(1) + " %" : "< 0.1 %";
}

// The server's messages begin in lower case and end without a full stop.
export function sentence(text) {
  const s = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(s) ? s : s + ".";
}

export const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
