import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pLimit from 'p-limit';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { startModelServer, tokensOf } from '../litellm/model-server.ts';
import { type LiteLLM, type SpendRow, startLiteLLM } from '../litellm/proxy.ts';
import { type Relay, startRelay } from '../litellm/relay.ts';
import {
  applyPolicy,
  manifest,
  OPERATOR_NAMESPACE,
  webhookDestination,
} from '../local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { signalProcess } from '../processes/pid-file.ts';
import { startReceiver } from '../receiver/receiver.ts';
import { type ReceivedEvent, readReceived, repeatedIds } from './received.ts';

const REQUESTS = 10_000;
const KILLS = 6;
const AT_ONCE = 40;
const TOKEN = 'ingest-token-of-litellm';
const SIGNING_KEY = 'signing-key';
/** Who owns the keys, and the tenant of each by the policy of our guide. */
const TENANT_OF: ReadonlyMap<string, string> = new Map([
  ['team-a', 'acme'],
  ['team-b', 'acme'],
  ['globex', 'globex'],
]);
const USERS = [...TENANT_OF.keys()];
const MODELS = ['small', 'large', 'embedding'] as const;
/** The last window, its settling time, and the delivery. */
const PATIENCE = { timeout: 360_000, interval: 1_000 };
const POLICY = {
  ingest: {
    cloudEvents: [{ preset: 'litellm' }],
    subjects: [{ subject: 'team-*', tenant: 'acme' }],
    unknownTenants: 'create',
    window: '60s',
  },
};

/** Tokens and requests by `<tenant> <model> <what>`. */
type Sums = Readonly<Record<string, number>>;

describe('LiteLLM as released, while meterfeed is killed again and again', () => {
  const cluster = useOwnTestCluster();
  const started = new AsyncDisposableStack();
  let files: RunFiles;
  let operator: RunningOperator;
  let relay: Relay;
  let litellm: LiteLLM;

  const startUp = async (): Promise<void> => {
    operator = await startOperator({
      files,
      kubeconfig: cluster.kubeconfigPath,
      env: { REGION: 'local', INGEST_TOKEN: TOKEN, COLLECTION_INTERVAL: '60s' },
      signal: AbortSignal.timeout(120_000),
    });
  };

  beforeAll(async () => {
    const directory = await mkdtemp(join(tmpdir(), 'litellm-'));
    started.defer(() => rm(directory, { recursive: true, force: true }));
    files = runFiles(directory);
    const secret = SIGNING_KEY;
    const receiver = await startReceiver({ file: files.received, secret, port: 0 });
    started.defer(() => receiver.stop());
    await applyPolicy(cluster.kubectl, POLICY);
    const namespace = {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: OPERATOR_NAMESPACE },
    };
    const destination = webhookDestination('invoicing', { url: receiver.url, secret });
    await cluster.kubectl(['apply', '-f', '-'], manifest([namespace, ...destination]));
    await startUp();
    started.defer(() => operator.stop());
    relay = await startRelay(() => operator.address);
    started.defer(() => relay.close());
    const models = await startModelServer();
    started.defer(() => models.close());
    litellm = await startLiteLLM({
      directory,
      modelServer: models.url,
      models: MODELS,
      meterfeed: { address: relay.url, token: TOKEN },
    });
    started.defer(() => litellm.stop());
  });
  afterAll(() => started.disposeAsync());

  test('bills the tokens of 10,000 requests as its own spend log has them', async () => {
    const began = performance.now();
    const limit = pLimit(AT_ONCE);
    let answered = 0;
    const sending = Array.from({ length: REQUESTS }, (_, number) =>
      limit(async () => {
        await send(litellm.url, number);
        answered += 1;
      }),
    );
    const killing = async (): Promise<void> => {
      for (let kill = 1; kill <= KILLS; kill += 1) {
        await vi.waitUntil(() => answered >= (kill * REQUESTS) / (KILLS + 1), PATIENCE);
        signalProcess(operator.pid, 'SIGKILL');
        expect(await operator.exited).toBe('signal SIGKILL');
        await startUp();
      }
    };
    await Promise.all([...sending, killing()]);

    const counted = truth();
    await vi.waitFor(() => expect(billed(tokenEvents())).toStrictEqual(counted), PATIENCE);
    expect(spent(await litellm.spendLog())).toStrictEqual(counted);
    const events = tokenEvents();
    expect(repeatedIds(events)).toEqual([]);
    const inTime = events.filter(({ properties }) => properties?.['late'] === undefined);
    expect(new Set(inTime.map(placeOf)).size).toBe(inTime.length);
    const intake = await fetch(`${operator.address}/api/v1/intake`);
    expect(await intake.json()).toMatchObject({ open_sums: 0, total: 0 });
    expect(relay.repeats()).toBeGreaterThan(0);
    console.log(
      JSON.stringify({
        kills: KILLS,
        sent: relay.requests(),
        repeats: relay.repeats(),
        events: events.length,
        sums: counted,
        seconds: Math.round((performance.now() - began) / 1_000),
      }),
    );
  }, 1_800_000);

  function tokenEvents(): readonly ReceivedEvent[] {
    return readReceived(files.received).filter(({ metric }) =>
      metric.startsWith('tenant_inference'),
    );
  }
});

/** The caller, the model and the way of a request. */
function planOf(number: number) {
  const user = USERS[number % USERS.length] ?? 'globex';
  const chat = number % 2 === 0 ? 'small' : 'large';
  const model = number % 10 === 0 ? 'embedding' : chat;
  return { user, model, isStreamed: number % 5 === 1, text: `request ${number}` };
}

async function send(url: string, number: number): Promise<void> {
  const { user, model, isStreamed, text } = planOf(number);
  const [path, content] =
    model === 'embedding'
      ? ['embeddings', { input: text }]
      : ['chat/completions', { messages: [{ role: 'user', content: text }], stream: isStreamed }];
  const response = await fetch(`${url}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer sk-${user}`, 'content-type': 'application/json' },
    // The client names another user, who must not pay.
    body: JSON.stringify({ model, user: 'somebody-else', ...content }),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`LiteLLM: HTTP ${response.status}: ${answer}`);
}

/** Sums of what the model server counts for all requests. */
function truth(): Sums {
  const rows = Array.from({ length: REQUESTS }, (_, number) => {
    const { user, model, text } = planOf(number);
    const { input, output } = tokensOf(text);
    const completion_tokens = model === 'embedding' ? 0 : output;
    return { user, model, prompt_tokens: input, completion_tokens };
  });
  return spent(rows);
}

/** Sums of a spend log. */
function spent(rows: readonly SpendRow[]): Sums {
  return sumsOf(
    rows.flatMap(({ user, model, prompt_tokens: input, completion_tokens: output }) => {
      // LiteLLM's spend log has the provider before the model.
      const place = `${TENANT_OF.get(user) ?? user} ${model.replace(/^openai\//, '')}`;
      return [
        [`${place} requests`, 1],
        [`${place} input`, input],
        [`${place} output`, output],
      ];
    }),
  );
}

/** Sums of usage events. */
function billed(events: readonly ReceivedEvent[]): Sums {
  return sumsOf(
    events.map(
      ({ tenant, quantity, dimensions: { model, token_type: type = 'requests' } = {} }) => [
        `${tenant} ${model} ${type}`,
        Number(quantity),
      ],
    ),
  );
}

function sumsOf(parts: readonly (readonly [key: string, count: number])[]): Sums {
  const sums: Record<string, number> = {};
  for (const [key, count] of parts) if (count > 0) sums[key] = (sums[key] ?? 0) + count;
  return sums;
}

/** A series and its window, of which a biller gets one event. */
function placeOf({ tenant, metric, dimensions, window_start: start }: ReceivedEvent): string {
  return JSON.stringify([tenant, metric, dimensions, start]);
}
