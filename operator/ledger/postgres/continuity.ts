import type { Session } from './session.ts';
import type { Contents, StreamState } from './state.ts';

/**
 * Whether a stream goes on from what was known of it: it may have more, by whoever writes it too, and never less or
 * something else. Where it does not, the server has lost what it confirmed.
 */
export async function goesOn(
  session: Session,
  known: StreamState,
  { state: found, segments }: Contents,
): Promise<boolean> {
  if (found.batch < known.batch || found.head < known.head) return false;
  if (found.head === known.head) return found.chain === known.chain;
  // Deleted meanwhile: nothing is left to compare with.
  if (known.head <= found.lowWater) return true;
  const [result] = await session.run([
    {
      text: 'select chain from meterfeed.batch where stream = $1 and last_seq = $2',
      values: [found.stream, known.head],
    },
  ]);
  const [row] = result?.rows ?? [];
  if (row !== undefined) return row['chain'] === known.chain;
  // Where numbers were left out, no batch ends: the next one says what it continues.
  const next = segments.find(({ firstSequence }) => firstSequence > known.head);
  return (next?.firstChain ?? found.chain) === known.chain;
}
