// OpenAI's SDK for JavaScript: `node openai.mjs CASE URL MODEL` prints what it saw as one line of JSON.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const [, , name, url, model] = process.argv;
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "any", maxRetries: 0, timeout: 90_000 });
const messages = [{ role: "user", content: "Say hello." }];
const input = "Say hello.";
const max_tokens = 60;
const max_output_tokens = 60;
const Place = z.object({ city: z.string().max(20), days: z.number().int().min(1).max(9) });
const parameters = {
  type: "object",
  properties: { city: { type: "string", maxLength: 20 } },
  required: ["city"],
  additionalProperties: false,
};
const weather = { type: "function", function: { name: "get_weather", parameters } };
const now = { type: "function", function: { name: "now" } };
const flat = { type: "function", name: "get_weather", parameters, strict: true };
const bareNow = { type: "function", name: "now", parameters: null, strict: null };

const cases = {
  async chat() {
    const whole = await client.chat.completions.create({ model, messages, max_tokens });
    const stream = client.chat.completions.stream({ model, messages, max_tokens, stream_options: { include_usage: true } });
    const streamed = await stream.finalChatCompletion();
    return { whole: whole.choices[0].message.content, streamed: streamed.choices[0].message.content, usage: streamed.usage };
  },

  async chat_calls() {
    const asked = { model, messages, max_tokens, tools: [weather, now], tool_choice: "required" };
    const told = (completion) =>
      completion.choices[0].message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments || "{}")]);
    const whole = await client.chat.completions.create(asked);
    const streamed = await client.chat.completions.stream(asked).finalChatCompletion();
    return { whole: told(whole), streamed: told(streamed), reason: streamed.choices[0].finish_reason };
  },

  async chat_loop() {
    const ran = [];
    const run = (given) => {
      ran.push(given);
      return "sunny";
    };
    const tool = { type: "function", function: { name: "get_weather", parameters, parse: JSON.parse, function: run } };
    const runner = client.chat.completions.runTools({ model, messages, max_tokens, stream: true, tools: [tool] });
    return { said: await runner.finalContent(), ran, roles: runner.messages.map((message) => message.role) };
  },

  async chat_form() {
    const response_format = zodResponseFormat(Place, "place");
    const parsed = await client.chat.completions.parse({ model, messages, max_tokens, response_format });
    return parsed.choices[0].message.parsed;
  },

  async responses() {
    const whole = await client.responses.create({ model, input, max_output_tokens });
    const stream = client.responses.stream({ model, input, max_output_tokens });
    const kinds = [];
    for await (const event of stream) kinds.push(event.type);
    const streamed = await stream.finalResponse();
    return { whole: whole.output_text, streamed: streamed.output_text, ends: [kinds[0], kinds.at(-1)] };
  },

  async responses_loop() {
    const asked = { model, input, max_output_tokens, store: false };
    const forced = { tools: [flat, bareNow], tool_choice: { type: "function", name: "get_weather" } };
    const first = await client.responses.stream({ ...asked, ...forced }).finalResponse();
    const calls = first.output.filter((item) => item.type === "function_call");
    const results = calls.map((call) => ({ type: "function_call_output", call_id: call.call_id, output: "sunny" }));
    const items = [{ role: "user", content: input }, ...first.output, ...results];
    const second = await client.responses.create({ ...asked, input: items, tools: [flat, bareNow], tool_choice: "none" });
    return {
      calls: calls.map((call) => [call.name, JSON.parse(call.arguments || "{}")]),
      said: second.output_text,
      longer: second.usage.input_tokens - first.usage.input_tokens,
    };
  },

  async responses_form() {
    const text = { format: zodTextFormat(Place, "place") };
    return (await client.responses.parse({ model, input, max_output_tokens, text })).output_parsed;
  },

  async refused() {
    const tools = [weather];
    try {
      await client.chat.completions.create({ model, messages, tools, tool_choice: "get_wether" });
    } catch (error) {
      return { kind: error.constructor.name, status: error.status, param: error.param, said: error.message };
    }
  },

  async cut() {
    let said = "";
    try {
      const stream = await client.chat.completions.create({ model, messages, stream: true });
      for await (const chunk of stream) said += chunk.choices[0]?.delta.content ?? "";
    } catch (error) {
      return { kind: error.constructor.name, said, code: error.code };
    }
  },

  async cut_response() {
    const kinds = [];
    try {
      const stream = await client.responses.create({ model, input, stream: true });
      for await (const event of stream) kinds.push(event.type);
    } catch (error) {
      return { kind: error.constructor.name, kinds };
    }
    return { kinds };
  },
};
console.log(JSON.stringify(await cases[name]()));
