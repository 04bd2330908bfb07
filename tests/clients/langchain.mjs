// LangChain: OpenAI for completions, ChatOpenAI for chats, and chains of them.
import { PromptTemplate } from "@langchain/core/prompts";
import { StringOutputParser } from "@langchain/core/output_parsers";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { initChatModel } from "langchain";
import { assert, collect, key, keyed, run, test, tools, url } from "./suite.mjs";

const at = (root) => ({ configuration: { baseURL: root + "/v1" }, apiKey: key, maxRetries: 0 });
const make = (more) => new OpenAI({ ...at(url), model: "demo", maxTokens: 8, modelKwargs: { seed: 7 }, ...more });
const chat = (more) => new ChatOpenAI({ ...at(url), model: "demo", maxTokens: 8, modelKwargs: { seed: 7 }, ...more });

test("invoke", async () => assert.ok((await make().invoke("It was")).length > 0));
test("invoke repeats", async () => assert.equal(await make().invoke("It was"), await make().invoke("It was")));
test("invoke with its own model name", async () => assert.ok(await make({ model: undefined }).invoke("It was")));
test("invoke with maxTokens -1", () => make({ maxTokens: -1 }).invoke("It was"));
test("invoke with stop", () => make({ stop: ["\n"] }).invoke("It was"));
test("generate of two prompts with n and bestOf", async () => {
    const answer = await make({ n: 2, bestOf: 3 }).generate(["It was", "He said"]);
    assert.deepEqual(answer.generations.map((g) => g.length), [2, 2]);
});
test("batch", async () => assert.equal((await make().batch(["It was", "He said"])).length, 2));
test("stream", async () =>
    assert.equal((await collect(await make().stream("It was"))).join(""), await make().invoke("It was")));
test("streaming: true with callbacks", async () => {
    let n = 0;
    await make({ streaming: true }).invoke("It was", { callbacks: [{ handleLLMNewToken: () => void n++ }] });
    assert.ok(n > 0);
});
test("a chain", async () => {
    const chain = PromptTemplate.fromTemplate("It was {thing}").pipe(make()).pipe(new StringOutputParser());
    assert.equal(typeof (await chain.invoke({ thing: "night" })), "string");
});
test("error of the model", () => assert.rejects(make({ model: "other" }).invoke("It was"), /other/));
test("a key", () => new OpenAI({ ...at(keyed), model: "demo", maxTokens: 8 }).invoke("It was"));
test("ChatOpenAI invoke", async () => assert.equal(typeof (await chat().invoke("Hello")).content, "string"));
test("ChatOpenAI turns", () => chat().invoke([["system", "Be brief"], ["human", "Hello"], ["ai", "Hi"], ["human", "How?"]]));
test("ChatOpenAI stream", async () =>
    assert.equal((await collect(await chat().stream("Hello"))).map((c) => c.content).join(""), (await chat().invoke("Hello")).content));
test("ChatOpenAI logprobs", async () =>
    assert.equal((await chat({ logprobs: true, topLogprobs: 2 }).invoke("Hello")).response_metadata.logprobs.content.length, 8));
const place = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"] };
const caller = () => chat({ ...at(tools), maxTokens: 60 });
const weather = { type: "function", function: { name: "weather", parameters: place } };
test("ChatOpenAI bindTools", async () => {
    const answer = await caller().bindTools([weather], { tool_choice: "weather" }).invoke("Hello");
    assert.ok(["Oslo", "Rome"].includes(answer.tool_calls[0].args.city));
});
test("ChatOpenAI bindTools stream", async () => {
    const chunks = await collect(await caller().bindTools([weather], { tool_choice: "required" }).stream("Hello"));
    const whole = chunks.reduce((a, b) => a.concat(b));
    assert.ok(["Oslo", "Rome"].includes(whole.tool_calls[0].args.city));
});
test("ChatOpenAI withStructuredOutput functionCalling", async () => {
    const answer = await caller().withStructuredOutput(place, { name: "weather", method: "functionCalling" }).invoke("Hello");
    assert.ok(["Oslo", "Rome"].includes(answer.city));
});
test("initChatModel", async () => {
    const model = await initChatModel("openai:demo", { ...at(url), maxTokens: 8 });
    assert.equal(typeof (await model.invoke("Hello")).content, "string");
});
test("OpenAIEmbeddings", async () =>
    assert.ok((await new OpenAIEmbeddings({ ...at(url), model: "demo" }).embedQuery("Hello")).length > 0));

await run();
