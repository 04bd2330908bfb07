// Requests to the server this page came from, and its server-sent events.

import {sentence} from "./text.js";

// An Error whose message is a sentence for the reader. broken: the answer had begun, or might come at another time.
class Refused extends Error {
  constructor(status, message, broken = false) {
    super(message);
    Object.assign(this, {status, broken});
  }
}

let key = "";
export const setKey = (value) => { key = value; };
export const hasKey = () => key !== "";

// A server that is busy says when to come again. So often is it asked.
const MOST_ASKED = 10;

export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); });
  });
}

function refusal(status, body) {
  const said = body?.error?.message ? sentence(body.error.message) : "";
  switch (status) {
  case 401:
    return new Refused(401, key ? "This API key is not one of the server's." : "This server wants an API key: give it below.");
  case 409:
    return new Refused(409, "The server serves another checkpoint now: this answer cannot go on.");
  case 429:
    return new Refused(429, `The server is busy. ${said}`);
  case 503:
    return new Refused(503, `The server does not answer now. ${said}`, true);
  default:
    return new Refused(status, said || `The server answered with status ${status}.`);
  }
}

// waits(seconds) is told when a busy server is asked again only then.
async function request(path, options, waits) {
  const headers = {...options.headers, ...(key && {Authorization: "Bearer " + key})};
  for (let asked = 1; ; asked++) {
    let response;
    try {
      response = await fetch(path, {...options, headers, credentials: "omit", cache: "no-store"});
    } catch (e) {
      if (e.name === "AbortError") throw e;
      throw new Refused(0, "The server cannot be reached.", true);
    }
    if (response.ok) return response;
    const wait = Number(response.headers.get("Retry-After"));
    if (response.status !== 429 || !wait || asked === MOST_ASKED)
      throw refusal(response.status, await response.json().catch(() => null));
    waits?.(wait);
    await pause(wait, options.signal);
  }
}

const posted = (body) => ({method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});

export const postJson = async (path, body, signal) => (await request(path, {...posted(body), signal})).json();
export const getJson = async (path) => (await request(path, {})).json();

const brokeOff = () => new Refused(0, "The connection to the server broke off.", true);

// The data of each event as it comes.
async function* events(body) {
  const reader = body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read().catch((e) => { throw e.name === "AbortError" ? e : brokeOff(); });
    if (done) return;
    rest += decoder.decode(value, {stream: true});
    const whole = rest.split("\n\n");
    rest = whole.pop();
    for (const event of whole) if (event.startsWith("data: ")) yield event.slice(6);
  }
}

export const routeOf = (request) => (request.messages ? "v1/chat/completions" : "v1/completions");

// Calls take(choice, fingerprint) for every piece of the answer.
export async function complete(body, signal, waits, take) {
  const wanted = body.messages ? {logprobs: true, top_logprobs: 5} : {logprobs: 5};
  const response = await request(routeOf(body),
    {...posted({...body, ...wanted, return_token_ids: true, stream: true}), signal}, waits);
  let ended = false;
  for await (const data of events(response.body)) {
    if (data === "[DONE]") { ended = true; continue; }
    const object = JSON.parse(data);
    if (object.error) throw new Refused(500, sentence(object.error.message), object.error.code === "queue_full");
    for (const choice of object.choices) take(choice, object.system_fingerprint);
  }
  if (!ended) throw brokeOff();
}
