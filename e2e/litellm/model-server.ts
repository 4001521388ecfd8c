import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { type LocalServer, startServer } from './http.ts';

/** Tokens of one answer. */
export interface Tokens {
  readonly input: number;
  readonly output: number;
}

/** What the model server counts for the request with this text: `request <number>`. */
export function tokensOf(request: string): Tokens {
  const number = Number(request.slice('request '.length));
  return { input: 10 + (number % 997), output: 1 + (number % 499) };
}

/** The fields of a request that matter here. */
interface ModelRequest {
  readonly model: string;
  readonly stream?: boolean;
  readonly messages?: readonly { readonly content: string }[];
  readonly input?: string | readonly string[];
}

/** A stand-in for a server of models, with the API of OpenAI: chats, streamed chats and embeddings. */
export function startModelServer(): Promise<LocalServer> {
  return startServer((request, response) => void answer(request, response));
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  // LiteLLM looks for a list of models.
  if (request.method !== 'POST') return void response.writeHead(404).end();
  const { model, messages, stream, input } = JSON.parse(await text(request)) as ModelRequest;
  if (input !== undefined) return json(response, embedding(model, [input].flat()));
  const tokens = tokensOf(messages?.at(-1)?.content ?? '');
  const head = { id: `chatcmpl-${randomUUID()}`, created: 1, model };
  const usage = {
    prompt_tokens: tokens.input,
    completion_tokens: tokens.output,
    total_tokens: tokens.input + tokens.output,
    prompt_tokens_details: { cached_tokens: Math.floor(tokens.input / 2) },
  };
  const message = { role: 'assistant', content: 'yes' };
  if (stream !== true) {
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    return json(response, { ...head, object: 'chat.completion', choices, usage });
  }
  const chunks = [
    { choices: [{ index: 0, delta: message, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage },
  ];
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const chunk of chunks) {
    const event = { ...head, object: 'chat.completion.chunk', ...chunk };
    response.write(`data: ${JSON.stringify(event)}\n\n`);
  }
  response.end('data: [DONE]\n\n');
}

function embedding(model: string, [input = '']: readonly string[]): object {
  const tokens = tokensOf(input).input;
  const data = [{ object: 'embedding', index: 0, embedding: [0.5] }];
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  return { object: 'list', model, data, usage };
}

function json(response: ServerResponse, body: object): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
