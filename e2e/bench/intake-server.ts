/**
 * One side of the intake bench, by its first argument. Sends its parent the port it listens on.
 * Both sides parse the same CloudEvents with express. `intake` maps and accepts them; `bare` stores
 * each with bare classic-level, synced.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express from 'express';
import { eventKey } from '../../operator/intake/read-reported.ts';
import type { ReportedRequest } from '../../operator/intake/reported-request.ts';
import { createBareLedger } from './bare-ledger.ts';
import { openIntake } from './open-intake.ts';

/** An event as LiteLLM's `openmeter` callback sends it. */
interface TokensEvent {
  readonly id: string;
  readonly source: string;
  readonly subject: string;
  readonly time: string;
  readonly data: { model: string; prompt_tokens: number; completion_tokens: number };
}

type Store = (events: readonly TokensEvent[]) => Promise<boolean>;

const directory = await mkdtemp(join(tmpdir(), 'meterfeed-bench-'));
const store = process.argv[2] === 'bare' ? await storeBare() : await storeInIntake();
const app = express();
app.use(express.json({ limit: '10mb', type: () => true }));
app.post('/api/v1/events', async (request, response) => {
  const body = request.body as TokensEvent | TokensEvent[];
  response.status((await store([body].flat())) ? 204 : 503).end();
});
const server = app.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.(typeof address === 'object' && address !== null ? address.port : 0);
});
process.once('disconnect', () => {
  void rm(directory, { recursive: true, force: true }).finally(() => process.exit(0));
});

async function storeBare(): Promise<Store> {
  const ledger = await createBareLedger(join(directory, 'bare'));
  return async (events) => {
    await ledger.append(events);
    return true;
  };
}

async function storeInIntake(): Promise<Store> {
  const { intake } = await openIntake(directory);
  void intake.run(new AbortController().signal);
  return async (events) => {
    const outcome = await intake.accept(events.map(mapped), 'bench');
    return outcome.kind === 'taken' && outcome.receptions.every(({ kind }) => kind === 'accepted');
  };
}

function mapped({ id, source, subject, time, data }: TokensEvent): ReportedRequest {
  const { model } = data;
  const tokens = (token_type: string, quantity: number) => ({
    metric: 'tenant_inference_tokens',
    dimensions: { model, token_type },
    quantity: String(quantity),
  });
  return {
    key: eventKey(source, id),
    source,
    id,
    subject,
    tenant: subject,
    at: Date.parse(time),
    quantities: [
      tokens('input', data.prompt_tokens),
      tokens('output', data.completion_tokens),
      { metric: 'tenant_inference_requests', dimensions: { model }, quantity: '1' },
    ],
  };
}
