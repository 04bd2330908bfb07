// Requests to the server this page came from, and its server-sent events.

import {sentence} from "./text.js";

// An Error whose message is a sentence for the reader.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let key = "";
export const setKey = (value) => { key = value; };
export const hasKey = () => key !== "";

function refusal(response, body) {
  const said = body?.error?.message ? sentence(body.error.message) : "";
  const wait = response.headers.get("Retry-After");
  switch (response.status) {
  case 401:
    return new Refused(401, key ? "This API key is not one of the server's." : "This server wants an API key: give it below.");
  case 429:
    return new Refused(429, `The server is busy${wait ? `; try again in ${wait} s` : ""}. ${said}`);
  case 503:
    return new Refused(503, `The server does not answer now. ${said}`);
  default:
    return new Refused(response.status, said || `The server answered with status ${response.status}.`);
  }
}

async function ask(path, options) {
  const headers = {...options.headers, ...(key && {Authorization: "Bearer " + key})};
  let response;
  try {
    response = await fetch(path, {...options, headers, credentials: "omit", cache: "no-store"});
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Refused(0, "The server cannot be reached.");
  }
  if (!response.ok) throw refusal(response, await response.json().catch(() => null));
  return response;
}

const posted = (body) => ({method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});

export const postJson = async (path, body) => (await ask(path, posted(body))).json();
export const getJson = async (path) => (await ask(path, {})).json();

// The data of each event as it comes.
async function* events(body) {
  const reader = body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += decoder.decode(value, {stream: true});
    const whole = rest.split("\n\n");
    rest = whole.pop();
    for (const event of whole) if (event.startsWith("data: ")) yield event.slice(6);
  }
}

// Calls take(choice, fingerprint) for every piece of the answer.
export async function complete(request, signal, take) {
  const response = await ask("v1/completions", {
    ...posted({...request, logprobs: 5, stream: true}),
    signal,
  });
  let ended = false;
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") { ended = true; continue; }
      const object = JSON.parse(data);
      if (object.error) throw new Refused(500, sentence(object.error.message));
      for (const choice of object.choices) take(choice, object.system_fingerprint);
    }
  } catch (e) {
    if (e instanceof Refused || e.name === "AbortError") throw e;
    throw new Refused(0, "The connection to the server broke off.");
  }
  if (!ended) throw new Refused(0, "The connection to the server broke off.");
}
