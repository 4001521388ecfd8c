import type { Failure } from '../connection.ts';
import { list, number, object, text } from '../fields.ts';
import type { Answer } from '../output/print.ts';
import { time } from '../output/words.ts';
import { type Command, DESTINATIONS, type Given } from './command.ts';

/** Shows the dead letters of a destination, or sends them again. */
export const replay: Command = {
  name: 'replay',
  summary: 'dead letters of a destination; --all or --id sends them again',
  positionals: [{ name: 'DESTINATION', complete: DESTINATIONS }],
  options: {
    all: { type: 'boolean', meaning: 'send all of them' },
    id: {
      type: 'string',
      multiple: true,
      value: 'EVENT',
      meaning: 'send this one; may be repeated',
    },
    force: {
      type: 'boolean',
      meaning: 'also send what needs force, as the error says',
    },
  },
  run: async (given) => {
    const [name = ''] = given.positionals;
    const path = `/api/v1/destinations/${encodeURIComponent(name)}/dead-letters`;
    const ids = given.options('id');
    const all = given.isSet('all');
    if (all && ids.length > 0) {
      return { kind: 'failed', message: 'both --all and --id: leave one out' };
    }
    if (all || ids.length > 0) return send(given, path, ids);
    if (given.isSet('force')) {
      return { kind: 'failed', message: '--force alone sends nothing: add --all or --id' };
    }
    return show(given, path, name);
  },
};

async function send(
  { api, isSet }: Given,
  path: string,
  ids: readonly string[],
): Promise<Answer | Failure> {
  const which = ids.length > 0 ? { ids } : { all: true };
  const body = isSet('force') ? { ...which, force: true } : which;
  const answer = await api.post(`${path}/replay`, body);
  if (answer.kind === 'failed') return answer;
  const { value } = answer;
  const counts = ['replayed', 'still_rejected', 'pending'];
  const unknown = list(value, 'unknown').map(String);
  return {
    kind: 'answer',
    document: value,
    table: {
      columns: counts.map((name) => ({
        name: name.toUpperCase().replace('_', ' '),
        align: 'right',
      })),
      rows: [counts.map((name) => text(value, name))],
      empty: '',
    },
    notes: unknown.length === 0 ? [] : [`No dead letters here: ${unknown.join(', ')}`],
  };
}

async function show({ api }: Given, path: string, name: string): Promise<Answer | Failure> {
  const answer = await api.get(path, { limit: '100' });
  if (answer.kind === 'failed') return answer;
  const letters = list(answer.value, 'dead_letters');
  const isMore = number(answer.value, 'next') > 0;
  return {
    kind: 'answer',
    document: answer.value,
    table: {
      columns: [
        { name: 'SINCE' },
        { name: 'EVENT' },
        { name: 'TENANT', cut: true },
        { name: 'REASON', cut: true },
      ],
      rows: letters.map((letter) => [
        time(text(letter, 'at')),
        text(object(letter, 'event'), 'id'),
        text(object(letter, 'event'), 'tenant'),
        reasonOf(letter),
      ]),
      empty: 'No dead letters: everything was accepted.',
    },
    notes: [
      ...(isMore ? ['These are the oldest 100.'] : []),
      ...(letters.length === 0 ? [] : [`Send them again: kubectl meterfeed replay ${name} --all`]),
    ],
  };
}

/**
 * The reason of a dead letter. It names an attempt without an answer, after which the event may be
 * billed already.
 */
function reasonOf(letter: unknown): string {
  const since = text(letter, 'unanswered_since');
  return since === ''
    ? text(letter, 'reason')
    : `${text(letter, 'reason')} (an attempt of ${time(since)} had no answer)`;
}
