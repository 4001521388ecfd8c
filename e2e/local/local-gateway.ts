import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { isRecord } from '../../operator/model/is-record.ts';
import type { MeteringPolicySpec } from '../../operator/settings/custom-resources.generated.ts';
import { TRIAL } from './trial-tenant.ts';

/** A user of the simulated gateway. */
interface Caller {
  /** As the gateway reports it. */
  readonly user: string;
  /** As the gateway asks for access. */
  readonly tenant: string;
}

const STUDIO = 'tenant-tenant-studio-studio';
const CALLERS: readonly Caller[] = [
  { user: 'acme-search', tenant: 'acme' },
  { user: 'acme-chat', tenant: 'acme' },
  { user: 'studio-captions', tenant: STUDIO },
  { user: 'trial-app', tenant: TRIAL.tenant },
];
/** The price book of the local run has a price of its own for the first model only. */
const MODELS = ['llama-3.3-70b', 'qwen3-235b', 'gpt-4o'];
/** How many requests the gateway's own cache answers, of all. */
const CACHED = 1 / 8;

/** `MeteringPolicy.spec.ingest` for the gateway. Its tokens are on the dashboard after one to two minutes. */
export const GATEWAY_POLICY = {
  window: '60s',
  cloudEvents: [{ preset: 'litellm' }],
  subjects: [
    { subject: 'acme-*', tenant: 'acme' },
    { subject: 'studio-*', tenant: STUDIO },
    { subject: 'trial-*', tenant: TRIAL.tenant },
  ],
} satisfies MeteringPolicySpec['ingest'];

/** What LiteLLM reports of one request, except for its user and its time. */
interface Completion {
  readonly id: string;
  readonly data: object;
}

/**
 * Plays an AI gateway until the signal is aborted: asks before each request whether the tenant has access, and reports each
 * answered one as LiteLLM does (docs/how-to/ai-gateways.md#five-gateways). Logs when a tenant is refused and when it is
 * admitted again. Like LiteLLM it repeats nothing, and it admits requests while it gets no answer.
 */
export async function runGateway(options: {
  /** Of the operator's API. */
  readonly address: string;
  readonly token: string;
  readonly everyMs: number;
  readonly now: () => number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { address, token, everyMs, now, random, log, signal } = options;
  const refused = new Set<string>();
  let last: Completion | undefined;
  let isLost = false;
  const call = async (path: string, body?: object): Promise<unknown> => {
    const response = await fetch(`${address}/api/v1/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        ...(body && { 'content-type': 'application/cloudevents+json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
      signal,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status}: ${text}`);
    return text === '' ? undefined : JSON.parse(text);
  };
  const isAdmitted = async ({ tenant }: Caller, model: string): Promise<boolean> => {
    const query = `metric=tenant_inference_tokens&model=${model}`;
    const access = await call(`tenants/${tenant}/access?${query}`).catch(() => undefined);
    if (access === undefined) return true;
    const isRefused = isRecord(access) && access['hasAccess'] === false;
    if (isRefused && !refused.has(tenant))
      log(`gateway: requests of ${tenant} are refused: ${JSON.stringify(access)}`);
    if (!isRefused && refused.has(tenant)) log(`gateway: ${tenant} has access again`);
    if (isRefused) refused.add(tenant);
    else refused.delete(tenant);
    return !isRefused;
  };
  while (!signal.aborted) {
    const caller = pick(CALLERS, random);
    const model = pick(MODELS, random);
    try {
      if (await isAdmitted(caller, model)) {
        // An answer from the gateway's own cache comes with the id of the first one.
        if (last === undefined || random() >= CACHED) last = completionOf(model, random);
        await call('events', eventOf(caller, last, now()));
      }
      isLost = false;
    } catch (error) {
      if (!signal.aborted && !isLost) log(`gateway: requests are not reported: ${String(error)}`);
      isLost = true;
    }
    await delay(everyMs, undefined, { signal }).catch(() => undefined);
  }
}

function pick<T>(all: readonly T[], random: () => number): T {
  return all[Math.floor(random() * all.length)] as T;
}

function completionOf(model: string, random: () => number): Completion {
  const prompt_tokens = 200 + Math.floor(random() * 4000);
  const completion_tokens = 50 + Math.floor(random() * 900);
  const total_tokens = prompt_tokens + completion_tokens;
  const data = { model, cost: null, prompt_tokens, completion_tokens, total_tokens };
  return { id: `chatcmpl-${randomUUID()}`, data };
}

function eventOf({ user }: Caller, { id, data }: Completion, now: number): object {
  return {
    specversion: '1.0',
    type: 'litellm_tokens',
    id,
    // As Python writes it.
    time: new Date(now).toISOString().replace('Z', '000+00:00'),
    subject: user,
    source: 'litellm-proxy',
    data,
  };
}
