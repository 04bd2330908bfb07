// Vercel's AI SDK with @ai-sdk/openai-compatible, completions and chats, and with @ai-sdk/openai, responses.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embed, generateText, jsonSchema, Output, streamText, tool } from "ai";
globalThis.AI_SDK_LOG_WARNINGS = false;
import { assert, collect, key, keyed, run, test, tools, url } from "./suite.mjs";

const make = (more) => createOpenAICompatible({ name: "noised", baseURL: url + "/v1", ...more });
const provider = make();
const model = provider.completionModel("demo"), chat = provider.chatModel("demo");
const base = { model, prompt: "It was", maxOutputTokens: 8, seed: 7, maxRetries: 0 };

test("generateText", async () => {
    const answer = await generateText(base);
    assert.ok(answer.text.length > 0 && answer.usage.outputTokens === 8 && answer.finishReason === "length");
});
test("generateText repeats", async () =>
    assert.equal((await generateText({ ...base, temperature: 0.7 })).text, (await generateText({ ...base, temperature: 0.7 })).text));
test("generateText with every setting", () =>
    generateText({ ...base, temperature: 0.7, topP: 0.9, presencePenalty: 0.5, frequencyPenalty: 0.5, stopSequences: ["\n\n"] }));
test("generateText with providerOptions", {
    user: { user: "me", echo: true }, logitBias: { logitBias: { 50: -100 } }, suffix: { suffix: "." },
}, (noised) => generateText({ ...base, providerOptions: { noised } }));
test("streamText", async () => {
    const stream = streamText(base);
    const parts = await collect(stream.textStream);
    assert.equal(parts.join(""), (await generateText(base)).text);
});
test("streamText with usage", async () => {
    const stream = streamText({ ...base, model: make({ includeUsage: true }).completionModel("demo") });
    await collect(stream.textStream);
    assert.equal((await stream.usage).outputTokens, 8);
});
test("streamText aborted", async () => {
    const abort = new AbortController();
    const stream = streamText({ ...base, maxOutputTokens: 400, abortSignal: abort.signal });
    for await (const _ of stream.textStream) abort.abort();
});
test("error of a field", () => assert.rejects(generateText({ ...base, temperature: 3 }), /temperature/));
test("a key", () =>
    generateText({ ...base, model: make({ baseURL: keyed + "/v1", apiKey: key }).completionModel("demo") }));
test("chat", async () => assert.ok((await generateText({ ...base, model: chat })).text));
test("chat stream", async () =>
    assert.equal((await collect(streamText({ ...base, model: chat }).textStream)).join(""), (await generateText({ ...base, model: chat })).text));
test("chat with turns", () =>
    generateText({ ...base, prompt: undefined, model: chat, system: "Be brief", messages: [
        { role: "user", content: "a" }, { role: "assistant", content: "b" }, { role: "user", content: [{ type: "text", text: "c" }] }] ,
        allowSystemInMessages: true }));
test("embed", () => embed({ model: provider.textEmbeddingModel("demo"), value: "Hello", maxRetries: 0 }));

const openai = (base) => createOpenAI({ baseURL: base + "/v1", apiKey: "none" })("demo");
const place = jsonSchema({ type: "object", properties: { city: { type: "string", enum: ["Oslo", "Rome"] } },
    required: ["city"], additionalProperties: false });
const said = { model: openai(url), prompt: "Hello", maxOutputTokens: 60, maxRetries: 0 };
const called = { ...said, model: openai(tools), maxOutputTokens: 120, toolChoice: "required", providerOptions: { openai: { parallelToolCalls: false } },
    tools: { weather: tool({ inputSchema: place, execute: ({ city }) => "Rain in " + city }) } };
test("responses", async () => assert.ok((await generateText(said)).text));
test("responses stream", async () => assert.ok((await collect(streamText(said).textStream)).join("")));
test("responses object", async () => {
    const { output } = await generateText({ ...said, output: Output.object({ schema: place }) });
    assert.ok(["Oslo", "Rome"].includes(output.city));
});
test("responses tool", async () => {
    const { toolCalls, toolResults } = await generateText(called);
    assert.equal(toolResults[0].output, "Rain in " + toolCalls[0].input.city);
});
test("responses tool stream", async () => {
    const stream = streamText(called);
    await collect(stream.textStream);
    const [call] = await stream.toolCalls, [result] = await stream.toolResults;
    assert.equal(result.output, "Rain in " + call.input.city);
});

await run();
