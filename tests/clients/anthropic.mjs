// Anthropic's SDK for JavaScript: `node anthropic.mjs CASE URL MODEL` prints what it saw as one line of JSON.
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

const [, , name, url, model] = process.argv;
const client = new Anthropic({ baseURL: url, apiKey: "any", maxRetries: 0, timeout: 90_000 });
const asked = { model, max_tokens: 60, messages: [{ role: "user", content: "Say hello." }] };
const City = z.object({ city: z.string() });
const input_schema = {
  type: "object",
  properties: { city: { type: "string", maxLength: 20 } },
  required: ["city"],
  additionalProperties: false,
};
const tools = [{ name: "get_weather", input_schema }, { name: "now", input_schema: { type: "object" } }];
const calls = (message) => message.content.filter((block) => block.type === "tool_use").map((block) => [block.name, block.input]);

const cases = {
  async messages() {
    const whole = await client.messages.create(asked);
    const stream = client.messages.stream(asked);
    const told = [];
    stream.on("text", (text) => told.push(text));
    const streamed = await stream.finalMessage();
    return { whole: whole.content[0].text, streamed: streamed.content[0].text, told: told.join(""), reason: streamed.stop_reason };
  },

  async calls() {
    const forced = { ...asked, tools, tool_choice: { type: "any" } };
    const whole = await client.messages.create(forced);
    const streamed = await client.messages.stream(forced).finalMessage();
    return { whole: calls(whole), streamed: calls(streamed), reason: streamed.stop_reason };
  },

  async runner() {
    const ran = [];
    const run = (given) => {
      ran.push(given);
      return "sunny";
    };
    const tool = betaZodTool({ name: "get_weather", description: "The weather.", inputSchema: City, run });
    const last = await client.beta.messages.toolRunner({ ...asked, tools: [tool] });
    return { said: last.content.at(-1).text, ran };
  },

  async loop() {
    const first = await client.messages.create({ ...asked, tools, tool_choice: { type: "tool", name: "get_weather" } });
    const use = first.content.find((block) => block.type === "tool_use");
    const messages = [
      ...asked.messages,
      { role: "assistant", content: first.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "sunny" }] },
    ];
    const second = await client.messages.stream({ ...asked, messages, tools, tool_choice: { type: "none" } }).finalMessage();
    return {
      calls: calls(first),
      said: second.content[0].text,
      longer: second.usage.input_tokens - first.usage.input_tokens,
    };
  },

  async form() {
    return (await client.messages.parse({ ...asked, output_config: { format: zodOutputFormat(City) } })).parsed_output;
  },

  async refused() {
    try {
      await client.messages.create({ ...asked, tools, tool_choice: { type: "tool", name: "get_wether" } });
    } catch (error) {
      return { kind: error.constructor.name, status: error.status, type: error.error.error.type, said: error.message };
    }
  },

  async cut() {
    let said = "";
    try {
      for await (const event of await client.messages.create({ ...asked, stream: true }))
        said += event.delta?.text ?? "";
    } catch (error) {
      return { said, type: error.error?.error?.type };
    }
  },
};
console.log(JSON.stringify(await cases[name]()));
