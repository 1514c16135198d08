// Vercel's AI SDK with its provider for compatible servers: `node vercel.mjs CASE URL MODEL` prints one line of JSON.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [, , name, url, id] = process.argv;
const ring = createOpenAICompatible({
  name: "ring",
  baseURL: `${url}/v1`,
  apiKey: "any",
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const asked = { model: ring(id), prompt: "Say hello.", maxOutputTokens: 60, maxRetries: 0, onError: () => {} };
const Place = z.object({ city: z.string().max(20), days: z.number().int().min(1).max(9) });

function loop(generate) {
  const ran = [];
  const execute = async (given) => {
    ran.push(given);
    return "sunny";
  };
  const get_weather = tool({ description: "The weather.", inputSchema: z.object({ city: z.string().max(20) }), execute });
  const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? { type: "tool", toolName: "get_weather" } : "none" });
  return [generate({ ...asked, tools: { get_weather }, prepareStep, stopWhen: stepCountIs(2) }), ran];
}

const cases = {
  async text() {
    const whole = await generateText(asked);
    const streamed = streamText(asked);
    const parts = [];
    for await (const part of streamed.textStream) parts.push(part);
    return { whole: whole.text, streamed: parts.join(""), reason: await streamed.finishReason, usage: await streamed.usage };
  },

  async loop() {
    const [pending, ran] = loop(generateText);
    const { text, steps } = await pending;
    return { said: text, ran, steps: steps.map((step) => step.finishReason) };
  },

  async stream_loop() {
    const [result, ran] = loop(streamText);
    const kinds = new Set();
    for await (const part of result.fullStream) kinds.add(part.type);
    const steps = (await result.steps).map((step) => step.finishReason);
    return { said: await result.text, ran, steps, kinds: [...kinds] };
  },

  async form() {
    return (await generateText({ ...asked, output: Output.object({ schema: Place }) })).output;
  },

  async refused() {
    try {
      await generateText({ ...asked, stopSequences: [""] });
    } catch (error) {
      return { kind: error.name, status: error.statusCode, param: error.data.error.param, said: error.message };
    }
  },

  async cut() {
    const said = [];
    let failed = null;
    for await (const part of streamText(asked).fullStream) {
      if (part.type === "text-delta") said.push(part.text);
      if (part.type === "error") failed = String(part.error?.message ?? part.error);
    }
    return { said: said.join(""), failed };
  },
};
console.log(JSON.stringify(await cases[name]()));
