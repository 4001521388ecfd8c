import { list, number, text } from '../fields.ts';
import { duration, time } from '../output/words.ts';
import { type Command, METRIC, RANGE, TENANT } from './command.ts';

/** What was not measured. */
export const gaps: Command = {
  name: 'gaps',
  summary: 'what was not measured, by cause and time',
  positionals: [],
  options: { ...RANGE, tenant: TENANT, metric: METRIC },
  run: async ({ api, option }) => {
    const answer = await api.get('/api/v1/gaps', {
      from: option('from'),
      to: option('to'),
      tenant: option('tenant'),
      metric: option('metric'),
    });
    if (answer.kind === 'failed') return answer;
    const groups = [...list(answer.value, 'open'), ...list(answer.value, 'ended')];
    return {
      kind: 'answer',
      document: answer.value,
      table: {
        columns: [
          { name: 'FROM' },
          { name: 'UNTIL' },
          { name: 'LASTED' },
          { name: 'SOURCE', cut: true },
          { name: 'SCOPE', cut: true },
          { name: 'REASON', cut: true },
        ],
        rows: groups.map((group) => [
          time(text(group, 'from')),
          text(group, 'open') === 'true' ? 'still open' : time(text(group, 'to')),
          duration(number(group, 'seconds')),
          text(group, 'source'),
          scopes(group),
          text(group, 'reason'),
        ]),
        empty: 'No gaps in this range: everything was measured.',
      },
    };
  },
};

function scopes(group: unknown): string {
  const [first = ''] = list(group, 'scopes').map(String);
  const more = number(group, 'scope_count') - 1;
  return more > 0 ? `${first} and ${more} more` : first;
}
