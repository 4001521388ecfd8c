import type { ReceivedEvent } from '../long/received.ts';

export interface Explained {
  readonly asked: number;
  /** Of windows that were closed just before a kill: explanations are written after the window is safe. */
  readonly lost: number;
  /** Ids of events that were not explained, or whose objects do not add up to their number. */
  readonly wrong: readonly string[];
}

const ASKED = 300;
/** An explanation is written within this after its window. */
const WRITING_MS = 2_000;

interface Explanation {
  readonly given_back: number;
  readonly objects: readonly { readonly quantity: number }[];
  readonly not_listed: { readonly quantity: number };
}

/** Asks what stands behind some of the numbers, from the first window to the last, and adds it up. */
export async function explainSome(
  address: string,
  events: readonly ReceivedEvent[],
  kills: readonly number[],
): Promise<Explained> {
  const every = Math.max(1, Math.floor(events.length / ASKED));
  const chosen = events.filter((_, index) => index % every === 0);
  const wrong: string[] = [];
  let lost = 0;
  for (const { id, quantity, recorded_at: recordedAt } of chosen) {
    const response = await fetch(`${address}/api/v1/events/${id}/explain`);
    const closedAt = Date.parse(recordedAt);
    if (
      response.status === 410 &&
      kills.some((at) => at >= closedAt && at - closedAt < WRITING_MS)
    ) {
      lost += 1;
      continue;
    }
    if (!response.ok) {
      wrong.push(`${id}: HTTP ${response.status}: ${await response.text()}`);
      continue;
    }
    const { objects, not_listed: rest, given_back: back } = (await response.json()) as Explanation;
    const sum = objects.reduce((all, object) => all + object.quantity, rest.quantity + back);
    // Each of them is rounded by half a billionth.
    const rounding = (objects.length + 2) * 0.6e-9;
    if (Math.abs(sum - Number(quantity)) > rounding) wrong.push(`${id}: ${sum}, not ${quantity}`);
  }
  return { asked: chosen.length, lost, wrong };
}
