// OpenAI's npm package: what its reference and its tests of completions, models and chats call.
import OpenAI from "openai";
import { assert, collect, key, keyed, run, test, tools, url } from "./suite.mjs";

const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
const base = { model: "demo", prompt: "It was", max_tokens: 8, seed: 7 };
const said = { model: "demo", messages: [{ role: "user", content: "Hello" }], max_tokens: 8, seed: 7 };
const complete = (more) => client.completions.create({ ...base, ...more });
const chat = (more) => client.chat.completions.create({ ...said, ...more });
const text = (chunks) => chunks.map((c) => c.choices[0]?.text ?? "").join("");
const spoken = (chunks) => chunks.map((c) => c.choices[0]?.delta.content ?? "").join("");

test("models.list", async () => assert.equal((await client.models.list()).data[0].id, "demo"));
test("models.list iterates over pages", async () => assert.equal((await collect(client.models.list()))[0].id, "demo"));
test("models.retrieve", async () => assert.equal((await client.models.retrieve("demo")).object, "model"));
test("models.retrieve of an unknown one", () => assert.rejects(client.models.retrieve("other"), OpenAI.NotFoundError));
test("models.delete", () => client.models.delete("demo"));

test("completions.create", async () => {
    const answer = await complete();
    assert.equal(answer.object, "text_completion");
    assert.equal(answer.choices.length, 1);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});
test("completions.create with required fields only", () => client.completions.create({ model: "demo", prompt: "It was" }));
test("completions.create", {
    "best_of 0": { best_of: 0 }, "best_of 3": { best_of: 3 }, echo: { echo: true }, frequency_penalty: { frequency_penalty: -2 },
    "logit_bias by id": { logit_bias: { 50: -100 } }, "logit_bias by text": { logit_bias: { foo: 0 } },
    "logprobs 0": { logprobs: 0 }, "logprobs 5": { logprobs: 5 }, "max_tokens 0": { max_tokens: 0 }, "n 2": { n: 2 },
    presence_penalty: { presence_penalty: 2 }, "seed -1": { seed: -1 }, "seed 0": { seed: 0 },
    "seed of 53 bits": { seed: Number.MAX_SAFE_INTEGER }, "seed of 63 bits": { seed: 2 ** 62 }, "stop as a string": { stop: "\n" },
    "stop as an array": { stop: ["\n", ".", "!", "?"] }, "stop null": { stop: null }, "stream false": { stream: false },
    "temperature 0": { temperature: 0 }, "temperature 2": { temperature: 2 }, "top_p 0.1": { top_p: 0.1 }, user: { user: "user-1234" },
    suffix: { suffix: "test." }, "stream_options without stream": { stream_options: { include_usage: true } },
    "prompt as ids": { prompt: [5, 6, 7] }, "prompts as ids": { prompt: [[5, 6], [7]] }, "prompt as strings": { prompt: ["It", "He"] },
}, async (more) => {
    const answer = await complete(more);
    assert.ok(answer.choices.every((c) => typeof c.text === "string" && ["stop", "length"].includes(c.finish_reason)));
});
test("completions.create with every field of the reference", () => complete({
    best_of: 0, echo: true, frequency_penalty: -2, logit_bias: { foo: 0 }, logprobs: 0, max_tokens: 16, n: 1, presence_penalty: -2,
    seed: 0, stop: "\n", stream: false, stream_options: { include_obfuscation: true, include_usage: true }, suffix: "test.",
    temperature: 1, top_p: 1, user: "user-1234" }));
test("completions.create equal for an equal seed", async () => {
    const [one, two] = [await complete({ temperature: 0.7 }), await complete({ temperature: 0.7 })];
    assert.equal(one.choices[0].text, two.choices[0].text);
    assert.equal(one.system_fingerprint, two.system_fingerprint);
});
test("completions.create with a field of ours", async () =>
    assert.equal((await complete({ noise_seed: 3 })).choices[0].noise_seed, 3));

test("stream", async () => {
    const chunks = await collect(await complete({ stream: true }));
    assert.equal(text(chunks), (await complete()).choices[0].text);
    assert.deepEqual(chunks.map((c) => c.choices[0].finish_reason).filter(Boolean), ["length"]);
});
test("stream with usage", async () => {
    const chunks = await collect(await complete({ stream: true, stream_options: { include_usage: true } }));
    assert.equal(chunks.at(-1).usage.completion_tokens, 8);
    assert.deepEqual(chunks.at(-1).choices, []);
});
test("stream with logprobs", async () => {
    const chunks = await collect(await complete({ stream: true, logprobs: 2 }));
    assert.equal(chunks.flatMap((c) => c.choices[0].logprobs.tokens).length, 8);
});
test("stream of two choices", async () => {
    const chunks = await collect(await complete({ stream: true, n: 2 }));
    assert.deepEqual([...new Set(chunks.map((c) => c.choices[0].index))].sort(), [0, 1]);
});
test("stream aborted by break", async () => {
    for await (const chunk of await complete({ stream: true, max_tokens: 500 })) if (chunk) break;
    await complete();
});
test("stream aborted by its controller", async () => {
    const stream = await complete({ stream: true, max_tokens: 500 });
    let n = 0;
    for await (const _ of stream) if (++n === 2) stream.controller.abort();
    assert.ok(n >= 2);
});
test("stream.tee", async () => {
    const [one, two] = (await complete({ stream: true })).tee();
    assert.equal(text(await collect(one)), text(await collect(two)));
});
test("stream.toReadableStream", async () => {
    const { Stream } = await import("openai/streaming");
    const again = Stream.fromReadableStream((await complete({ stream: true })).toReadableStream(), new AbortController());
    assert.equal(text(await collect(again)), (await complete()).choices[0].text);
});
test("stream refused before its head", () => assert.rejects(complete({ stream: true, n: 0 }), OpenAI.BadRequestError));

test("withResponse", async () => {
    const { data, response, request_id } = await complete().withResponse();
    assert.equal(response.status, 200);
    assert.ok(data.id && request_id);
});
test("asResponse", async () => assert.match((await complete().asResponse()).headers.get("content-type"), /^application\/json/));
test("_request_id", async () => assert.ok((await complete())._request_id));
test("a header of one's own", () => complete().then(() => client.models.list({ headers: { "X-Stainless-Custom": "x" } })));
test("defaultQuery", async () => {
    const other = new OpenAI({ baseURL: url + "/v1", apiKey: "none", defaultQuery: { foo: "bar" } });
    assert.equal((await other.models.list()).data[0].id, "demo");
});
test("client.post", async () =>
    assert.ok((await client.post("/completions", { body: { prompt: "It was", max_tokens: 2 } })).choices));
test("error of a field", async () => {
    const e = await complete({ temperature: 3 }).catch((e) => e);
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.equal(e.param, "temperature");
    assert.equal(e.type, "invalid_request_error");
    assert.ok(e.requestID);
});
test("error of the model", () => assert.rejects(complete({ model: "gpt-5" }), OpenAI.NotFoundError));
test("error of the context", async () => assert.equal((await complete({ max_tokens: 5000 }).catch((e) => e)).code, "context_length_exceeded"));
test("error of the route", () => assert.rejects(client.get("/nothing"), OpenAI.NotFoundError));
test("error of the key", () =>
    assert.rejects(new OpenAI({ baseURL: keyed + "/v1", apiKey: "wrong" }).models.list(), OpenAI.AuthenticationError));
test("the right key", () => new OpenAI({ baseURL: keyed + "/v1", apiKey: key }).models.list());
test("timeout", () =>
    assert.rejects(client.completions.create({ ...base, max_tokens: 480, n: 64 }, { timeout: 20 }), OpenAI.APIConnectionTimeoutError));

test("chat.completions.create", async () => {
    const answer = await chat();
    assert.equal(answer.object, "chat.completion");
    assert.equal(answer.choices[0].message.role, "assistant");
    assert.equal(typeof answer.choices[0].message.content, "string");
});
test("chat.completions.create", {
    parts: { messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }] },
    "system and developer": { messages: [{ role: "developer", content: "Be brief" }, { role: "user", content: "Hello" }] },
    turns: { messages: [{ role: "user", content: "a" }, { role: "assistant", content: "b" }, { role: "user", content: "c" }] },
    max_completion_tokens: { max_tokens: undefined, max_completion_tokens: 8 }, "n 2": { n: 2 }, store: { store: false },
    logprobs: { logprobs: true, top_logprobs: 2 }, stop: { stop: ["\n"] }, metadata: { metadata: { a: "b" } },
    "response_format text": { response_format: { type: "text" } }, "service_tier auto": { service_tier: "auto" },
    "response_format json_object": { response_format: { type: "json_object" } },
    image: { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA==" } }] }] },
}, async (more) => assert.ok((await chat(more)).choices[0].message));
test("chat stream", async () =>
    assert.equal(spoken(await collect(await chat({ stream: true }))), (await chat()).choices[0].message.content));
test("chat.completions.stream", async () => {
    const stream = client.chat.completions.stream(said);
    assert.equal(await stream.finalContent(), (await chat()).choices[0].message.content);
    assert.equal((await stream.finalChatCompletion()).choices[0].finish_reason, "length");
});
const weather = { type: "function", function: { name: "weather", parameters: {
    type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"] } } };
const caller = new OpenAI({ baseURL: tools + "/v1", apiKey: "none", maxRetries: 0 });
const asked = { ...said, max_tokens: 90, tools: [weather], parallel_tool_calls: false };
const check = (message) => {
    assert.equal(message.content, null);
    assert.equal(message.tool_calls.length, 1);
    assert.equal(message.tool_calls[0].function.name, "weather");
    assert.ok(["Oslo", "Rome"].includes(JSON.parse(message.tool_calls[0].function.arguments).city));
};
test("chat.completions.create tools", async () => assert.ok((await caller.chat.completions.create(asked)).choices[0].message));
test("chat.completions.create tools", {
    required: "required", named: { type: "function", function: { name: "weather" } },
}, async (choice) => {
    const answer = await caller.chat.completions.create({ ...asked, tool_choice: choice });
    check(answer.choices[0].message);
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
});
test("chat.completions.stream tools", async () => {
    const stream = caller.chat.completions.stream({ ...asked, tool_choice: "required" });
    const message = (await stream.finalChatCompletion()).choices[0].message, again = { ...asked, tool_choice: "required" };
    check(message);
    assert.deepEqual(message.tool_calls.map(({ id, function: f }) => [id, f.arguments]),
        (await caller.chat.completions.create(again)).choices[0].message.tool_calls.map(({ id, function: f }) => [id, f.arguments]));
});
test("chat.completions.create with a tool's answer", async () => {
    const { message } = (await caller.chat.completions.create({ ...asked, tool_choice: "required" })).choices[0];
    const messages = [...said.messages, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "Rain" }];
    assert.ok((await caller.chat.completions.create({ ...asked, messages, tools: undefined, parallel_tool_calls: undefined })).choices[0].message.content);
});
test("embeddings.create", {
    float: { encoding_format: "float" }, base64: {},
}, async (more) => assert.ok((await client.embeddings.create({ model: "demo", input: "Hello", ...more })).data[0].embedding.length > 0));
test("responses.create", () => client.responses.create({ model: "demo", input: "Hello" }));
test("responses.parse", async () => {
    const schema = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"], additionalProperties: false };
    const format = { type: "json_schema", name: "place", strict: true, schema };
    const answer = await client.responses.parse({ model: "demo", input: "Where?", max_output_tokens: 60, text: { format } });
    assert.ok(["Oslo", "Rome"].includes(answer.output_parsed.city));
});
const flat = { type: "function", name: "weather", strict: true, parameters: weather.function.parameters };
const calling = { model: "demo", input: "Rain?", max_output_tokens: 120, tools: [flat], tool_choice: "required", parallel_tool_calls: false };
test("responses.create tools", async () => {
    const { output } = await caller.responses.create(calling);
    assert.ok(output.length === 1 && output[0].type === "function_call" && output[0].name === "weather");
    const given = { type: "function_call_output", call_id: output[0].call_id, output: "Rain" };
    const input = [{ role: "user", content: "Rain?" }, ...output, given];
    assert.ok((await caller.responses.create({ ...calling, input, tool_choice: "none" })).output_text);
});
test("responses.stream tools", async () => {
    const stream = caller.responses.stream(calling);
    let streamed = "";
    stream.on("response.function_call_arguments.delta", (event) => { streamed += event.delta; });
    const { output } = await stream.finalResponse();
    assert.equal(streamed, output[0].arguments);
    assert.ok(["Oslo", "Rome"].includes(JSON.parse(streamed).city));
});

await run();
