import type { ReceivedEvent } from '../long/received.ts';

export interface Explained {
  readonly checked: number;
  /** Ids of events that were not explained, or whose objects do not add up to their number. */
  readonly wrong: readonly string[];
}

const REQUESTED = 300;

interface Explanation {
  readonly given_back: number;
  readonly adds_up: boolean;
  readonly objects: readonly ExplainedObject[];
  readonly not_listed: { readonly quantity: number };
}

/** A stretch of an object that an event charges for; times are RFC 3339. */
export interface ExplainedObject {
  readonly kind: string;
  readonly name: string;
  readonly from: string;
  readonly to: string;
  readonly quantity: number;
  /** It is of an earlier window. */
  readonly carried?: boolean;
}

/** What stands behind an event, or why nobody says. */
export async function explain(address: string, id: string): Promise<Explanation | string> {
  const response = await fetch(`${address}/api/v1/events/${id}/explain`);
  if (!response.ok) return `${id}: HTTP ${response.status}: ${await response.text()}`;
  return (await response.json()) as Explanation;
}

/** Asks what stands behind some of the numbers, from the first window to the last, and adds it up. */
export async function explainSome(
  address: string,
  events: readonly ReceivedEvent[],
): Promise<Explained> {
  const every = Math.max(1, Math.floor(events.length / REQUESTED));
  const chosen = events.filter((_, index) => index % every === 0);
  const wrong: string[] = [];
  for (const { id, quantity } of chosen) {
    const explanation = await explain(address, id);
    if (typeof explanation === 'string') {
      wrong.push(explanation);
      continue;
    }
    const { objects, not_listed: rest, given_back: back, adds_up: addsUp } = explanation;
    const sum = objects.reduce((all, object) => all + object.quantity, rest.quantity + back);
    // Each of them is rounded by half a billionth.
    const rounding = (objects.length + 2) * 0.6e-9;
    if (!addsUp || Math.abs(sum - Number(quantity)) > rounding) {
      wrong.push(`${id}: ${sum}, not ${quantity}`);
    }
  }
  return { checked: chosen.length, wrong };
}
