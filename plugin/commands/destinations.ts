import { list, number, text } from '../fields.ts';
import { duration } from '../output/words.ts';
import type { Command } from './command.ts';

/** The state of each destination as `kubectl get` shows it, and its lag. */
export const destinations: Command = {
  name: 'destinations',
  summary: 'what is wrong with each destination, and how far it is behind',
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
          { name: 'STATUS', cut: true },
          { name: 'BEHIND' },
          { name: 'PARKED', align: 'right' },
          { name: 'DEAD', align: 'right' },
        ],
        rows: list(answer.value, 'destinations').map((destination) => [
          text(destination, 'name'),
          text(destination, 'type'),
          text(destination, 'summary'),
          duration(number(destination, 'lag_seconds')),
          text(destination, 'parked_events'),
          text(destination, 'dead_letters'),
        ]),
        empty: 'No destinations: usage stays in the ledger. Create a BillingDestination.',
      },
    };
  },
};
