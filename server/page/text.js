// Small things that every module uses.

export const byId = (id) => document.getElementById(id);

// element("p", {class: "dim"}, "text", child, ...)
export function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

export function button(label, attributes, pressed) {
  const b = element("button", {type: "button", ...attributes}, label);
  listenPress(b, pressed);
  return b;
}

// A button that has nothing to do now keeps the focus, which a disabled one would drop.
export const enable = (b, can) => b.setAttribute("aria-disabled", !can);
export function listenPress(b, pressed) {
  b.addEventListener("click", (e) => { if (b.ariaDisabled !== "true") pressed(e); });
}

// A field of a number: what is typed counts at once, and is shown as it was understood when the reader leaves it.
export function listenNumber(input, read, write) {
  input.addEventListener("input", () => { if (input.value !== "") write(input.value); });
  input.addEventListener("change", () => { input.value = read(); });
}

// Nothing is written over what the reader is typing.
export function show(input, value) {
  if (input !== document.activeElement && input.value !== String(value)) input.value = value;
}

// What stays as it was is not touched: it keeps the focus, and a press that has begun on it counts.
export function renew(parent, ...children) {
  for (const old of [...parent.children]) if (!children.some((c) => c.isEqualNode(old))) old.remove();
  children.forEach((c, i) => {
    const there = parent.children[i];
    if (!there?.isEqualNode(c)) parent.insertBefore(c, there ?? null);
  });
  while (parent.children.length > children.length) parent.lastChild.remove();
}

export async function copy(b, text) {
  const label = b.textContent;
  try {
    await navigator.clipboard.writeText(text);
    b.textContent = "Copied";
  } catch {
    b.textContent = "Not allowed";
  }
  setTimeout(() => { b.textContent = label; }, 1500);
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
export const shorten = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
// The class of a square's colour, for a share of 0 to 1.
export const shade = (share) => "s" + Math.min(7, Math.floor(8 * share));
// A token as it stands in a table.
export const spelled = (token) => shorten(JSON.stringify(token).slice(1, -1), 24);
export const sum = (list) => list.reduce((a, b) => a + b, 0);
