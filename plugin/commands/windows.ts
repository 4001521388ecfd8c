import { list, text } from '../fields.ts';
import { duration, time } from '../output/words.ts';
import type { Command } from './command.ts';

/** The windows that were closed last. */
export const windows: Command = {
  name: 'windows',
  summary: 'the last closed windows, and their gaps',
  positionals: [],
  options: {
    limit: { type: 'string', value: 'COUNT', meaning: 'how many, 1 to 1000; by default 20' },
  },
  run: async ({ api, option }) => {
    const answer = await api.get('/api/v1/windows', { limit: option('limit') ?? '20' });
    if (answer.kind === 'failed') return answer;
    return {
      kind: 'answer',
      document: answer.value,
      table: {
        columns: [
          { name: 'START' },
          { name: 'LENGTH' },
          { name: 'EVENTS', align: 'right' },
          { name: 'GAPS', align: 'right' },
          { name: 'NOT MEASURED', cut: true },
        ],
        rows: list(answer.value, 'windows').map((window) => {
          const start = text(window, 'window_start');
          const end = text(window, 'window_end');
          const gaps = list(window, 'gaps');
          return [
            time(start),
            duration((Date.parse(end) - Date.parse(start)) / 1000),
            text(window, 'events'),
            String(gaps.length),
            gaps.length === 0 ? '' : `${text(gaps[0], 'scope')}: ${text(gaps[0], 'reason')}`,
          ];
        }),
        empty: 'No window has closed yet.',
      },
    };
  },
};
