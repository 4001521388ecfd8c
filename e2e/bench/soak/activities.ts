import { setTimeout as delay } from 'node:timers/promises';
import type { Kubectl } from '../../control-plane/kubectl.ts';
import { manifest, webhookDestination } from '../../local/custom-resources.ts';
import type { Receiver } from '../../receiver/receiver.ts';

/** Known to everybody who reads this; they guard nothing but loopback addresses. */
export const INGEST_TOKEN = 'soak-ingest';
export const RECEIVER_SECRET = 'soak-receiver';

/** What is declared for what the soak pushes in. */
export const PUSHED_METRIC = 'tokens_used:tokens';

const VISIT_MS = 2_000;
const PUSH_MS = 500;
const STAY_MS = 45_000;
const PUSHED_TENANTS = 20;
const VISITED = [
  '/',
  '/api/v1/status',
  '/api/v1/tenants',
  '/api/v1/usage?group_by=tenant',
  '/api/v1/usage?group_by=tenant,metric&format=csv',
  '/api/v1/costs?group_by=tenant',
  '/api/v1/windows',
  '/api/v1/destinations',
  '/metrics',
];

export interface Activities {
  /** Answers other than 2xx that pages and pushes got, by status and path. */
  readonly refused: ReadonlyMap<string, number>;
  stop(): Promise<void>;
}

/** Somebody reads pages, somebody pushes usage in, and a destination comes and goes, until they are stopped. */
export function startActivities(
  address: string,
  kubectl: Kubectl,
  receiver: Pick<Receiver, 'url'>,
): Activities {
  const stopping = new AbortController();
  const { signal } = stopping;
  const refused = new Map<string, number>();
  const count = (what: string): void => void refused.set(what, (refused.get(what) ?? 0) + 1);
  const repeat = async (
    everyMs: number,
    slice: (index: number) => Promise<void>,
  ): Promise<void> => {
    for (let index = 0; !signal.aborted; index += 1) {
      await slice(index).catch((error: unknown) => {
        if (!signal.aborted) count(error instanceof Error ? error.message : String(error));
      });
      await delay(everyMs, undefined, { signal }).catch(() => undefined);
    }
  };
  const visit = async (index: number): Promise<void> => {
    const path = VISITED[index % VISITED.length] ?? '/';
    const response = await fetch(address + path, { headers: { accept: 'text/html, */*' }, signal });
    await response.arrayBuffer();
    if (!response.ok) count(`GET ${path}: ${response.status}`);
  };
  const push = async (index: number): Promise<void> => {
    const response = await fetch(`${address}/api/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${INGEST_TOKEN}` },
      body: JSON.stringify(pushed(index)),
      signal,
    });
    await response.arrayBuffer();
    if (!response.ok) count(`POST /api/v1/events: ${response.status}`);
  };
  const comeOrGo = async (index: number): Promise<void> => {
    const objects = webhookDestination('comes-and-goes', {
      url: receiver.url,
      secret: RECEIVER_SECRET,
    });
    if (index % 2 === 0) await kubectl(['apply', '-f', '-'], manifest(objects));
    else await kubectl(['delete', 'billingdestination', 'comes-and-goes', '--wait=true']);
  };
  const running = [repeat(VISIT_MS, visit), repeat(PUSH_MS, push), repeat(STAY_MS, comeOrGo)];
  return {
    refused,
    stop: async () => {
      stopping.abort();
      await Promise.all(running);
    },
  };
}

/** Usage of one of a few tenants, in a minute that is over; each time with an id of its own. */
function pushed(index: number): object {
  const end = Math.floor(Date.now() / 60_000) * 60_000;
  return {
    id: `soak-${end}-${index}`,
    tenant: `pushed-${index % PUSHED_TENANTS}`,
    metric: 'tokens_used',
    quantity: 1 + (index % 7),
    window_start: new Date(end - 60_000).toISOString(),
    window_end: new Date(end).toISOString(),
  };
}
