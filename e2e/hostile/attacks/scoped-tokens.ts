import { randomUUID } from 'node:crypto';
import { isRecord } from '../../../operator/model/is-record.ts';
import { again, query, type PeerMeans } from './peer-requests.ts';
import { type PeerAttack, pushedEvent } from './peers.ts';

/** Derived from the tenant and the id that was given (docs/reference/events.md#pushed-events). */
const STORED_ID = /^ing1_/;
/** What is refused for now says nothing of ids. */
const BUSY: readonly number[] = [429, 503];

/** Two senders, each with an ingest token for a tenant of its own, that use the same ids. */
export const SCOPED_TOKEN_ATTACKS: readonly PeerAttack[] = [
  {
    name: 'ids of another sender',
    make: (random) => {
      const isFirst = random.chance(0.5);
      return (means) =>
        again(means, 200, async () => {
          const id = `order-${randomUUID()}`;
          const senders = [
            { tenant: 'stranger', token: means.ingestToken },
            { tenant: 'rival', token: means.rivalIngestToken },
          ] as const;
          const stored: string[] = [];
          for (const sender of isFirst ? senders : senders.toReversed()) {
            const problem = await push(means, sender, id, stored);
            if (problem !== undefined) means.misbilled(`${sender.tenant}: id ${id}: ${problem}`);
          }
          const [one, other] = stored;
          if (one !== undefined && one === other) means.misbilled(`two senders share id ${one}`);
        });
    },
  },
];

/** What is wrong with the answer to a first push of an id; undefined when nothing is. */
async function push(
  means: PeerMeans,
  { tenant, token }: { readonly tenant: string; readonly token: string },
  id: string,
  stored: string[],
): Promise<string | undefined> {
  const answer = await query(means, {
    method: 'POST',
    path: '/api/v1/events',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...pushedEvent(tenant, 0), id }),
  });
  if (answer === undefined || BUSY.includes(answer.status)) return undefined;
  const body = parsedOf(answer.body);
  if (answer.status !== 200) return `HTTP ${answer.status}: ${answer.body.slice(0, 200)}`;
  const [given] = Array.isArray(body['ids']) ? (body['ids'] as unknown[]) : [];
  if (typeof given !== 'string') return undefined;
  stored.push(given);
  if (!STORED_ID.test(given)) return `it is stored as "${given}", which is not derived`;
  return body['accepted'] === 1 ? undefined : 'it was taken for one that is there already';
}

function parsedOf(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(text);
    return isRecord(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
