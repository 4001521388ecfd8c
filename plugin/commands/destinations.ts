import { list, number, object, text } from '../fields.ts';
import { duration } from '../output/words.ts';
import type { Command } from './command.ts';

/** How far each billing system is behind, and why. */
export const destinations: Command = {
  name: 'destinations',
  summary: 'how far each destination is behind, and why',
  positionals: [],
  options: {},
  run: async ({ api }) => {
    const answer = await api.get('/api/v1/destinations');
    if (answer.kind === 'failed') return answer;
    return {
      kind: 'answer',
      document: answer.value,
      table: {
        columns: [
          { name: 'NAME', cut: true },
          { name: 'TYPE' },
          { name: 'READY' },
          { name: 'BEHIND' },
          { name: 'PARKED', align: 'right' },
          { name: 'DEAD', align: 'right' },
          { name: 'STATUS', cut: true },
        ],
        rows: list(answer.value, 'destinations').map((destination) => [
          text(destination, 'name'),
          text(destination, 'type'),
          text(destination, 'ready'),
          duration(number(destination, 'lag_seconds')),
          text(destination, 'parked_events'),
          text(destination, 'dead_letters'),
          statusOf(destination),
        ]),
        empty: 'No destinations: usage stays in the ledger. Create a BillingDestination.',
      },
    };
  },
};

/** The most urgent of what is to be said. */
function statusOf(destination: unknown): string {
  const problem = text(object(destination, 'problem'), 'message');
  const held = text(destination, 'held');
  const suspended = text(destination, 'suspended') === 'true' ? 'suspended' : '';
  const failing =
    number(destination, 'consecutive_failures') > 0 ? text(destination, 'last_error') : '';
  const behind = number(destination, 'lag_records') > 0 ? 'delivering' : 'up to date';
  return problem || suspended || held || failing || behind;
}
