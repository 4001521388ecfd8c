import type { Ledger } from '../../ledger/ledger.ts';
import type { QueuedEvent } from '../delivery-result.ts';

/** The ids of what a letter that is a sum adds up, as far as the ledger still has them; undefined of any other. */
export async function partIdsOf(
  ledger: Pick<Ledger, 'read'>,
  { parts }: Pick<QueuedEvent, 'parts'>,
): Promise<readonly string[] | undefined> {
  if (parts === undefined) return undefined;
  const ids: string[] = [];
  for (const sequence of parts) {
    const page = await ledger.read(sequence - 1, 1);
    const stored = page.kind === 'page' ? page.events[0] : undefined;
    if (stored?.sequence === sequence) ids.push(stored.event.id);
  }
  return ids;
}

/** Which of the ids name a letter: its own, or one of a part of it, whose sum is the letter. */
export async function namesOf(
  ledger: Pick<Ledger, 'read'>,
  letter: QueuedEvent,
  wanted: ReadonlySet<string>,
): Promise<readonly string[]> {
  const ids = [letter.event.id, ...((await partIdsOf(ledger, letter)) ?? [])];
  return ids.filter((id) => wanted.has(id));
}
