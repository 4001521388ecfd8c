import type { Failure } from '../connection.ts';
import { list, number, object, text } from '../fields.ts';
import type { Answer } from '../output/print.ts';
import { duration, rounded, time } from '../output/words.ts';
import { type Command, type Given, METRIC, TENANT } from './command.ts';

/** Explains one event, or lists events to choose one from. */
export const explain: Command = {
  name: 'explain',
  summary: 'what stands behind a number, or the events to choose one from',
  positionals: [{ name: '[EVENT]' }],
  options: {
    tenant: { ...TENANT, meaning: 'events of this tenant' },
    metric: { ...METRIC, meaning: 'events of this metric' },
    at: {
      type: 'string',
      value: 'TIME',
      meaning: 'events of the window at this time; by default the last one',
    },
  },
  run: async (given) => {
    const [id] = given.positionals;
    return id === undefined ? choose(given) : show(given, id);
  },
};

async function show({ api }: Given, id: string): Promise<Answer | Failure> {
  const answer = await api.get(`/api/v1/events/${encodeURIComponent(id)}/explain`);
  if (answer.kind === 'failed') return answer;
  const { value } = answer;
  const event = object(value, 'event');
  const query = text(object(value, 'query'), 'promql');
  const rule = object(value, 'rule');
  const left = object(value, 'not_listed');
  return {
    kind: 'answer',
    document: value,
    facts: [
      text(event, 'tenant'),
      `${text(event, 'metric')}  ${text(event, 'quantity')} ${text(event, 'unit')}`,
      `${time(text(event, 'window_start'))} to ${time(text(event, 'window_end'))}, from ${text(value, 'source')}`,
      text(rule, 'text'),
      ...(query === '' ? [] : [`Query: ${query}`]),
    ].filter((fact) => fact !== ''),
    table: {
      columns: [
        { name: 'KIND' },
        { name: 'OBJECT', cut: true },
        { name: 'FROM' },
        { name: 'LASTED' },
        { name: 'QUANTITY', align: 'right' },
        { name: 'NODE', cut: true },
      ],
      rows: list(value, 'objects').map((each) => [
        text(each, 'kind'),
        [text(each, 'namespace'), text(each, 'name')].filter((part) => part !== '').join('/'),
        time(text(each, 'from')),
        duration(number(each, 'seconds')),
        text(each, 'quantity'),
        text(object(each, 'node'), 'name'),
      ]),
      empty: 'No objects stand behind this number.',
    },
    notes: [
      ...(number(left, 'count') > 0
        ? [`${text(left, 'count')} more objects: ${rounded(text(left, 'quantity'))}`]
        : []),
      ...list(value, 'gaps').map(
        (gap) =>
          `Not measured: ${text(gap, 'scope')} from ${time(text(gap, 'from'))} to ${time(text(gap, 'to'))}: ${text(gap, 'reason')}`,
      ),
    ],
  };
}

/** The events of one window, so that one can be picked by its id. */
async function choose(given: Given): Promise<Answer | Failure> {
  const { api, option } = given;
  const range = await windowOf(given);
  if (range.kind === 'failed') return range;
  const { from, to } = range;
  const filters = { tenant: option('tenant'), metric: option('metric') };
  const answer = await api.get('/api/v1/events', { ...filters, from, to, limit: '1000' });
  if (answer.kind === 'failed') return answer;
  const events: readonly unknown[] = Array.isArray(answer.value) ? answer.value : [];
  return {
    kind: 'answer',
    document: answer.value,
    table: {
      columns: [
        { name: 'EVENT' },
        { name: 'TENANT', cut: true },
        { name: 'METRIC', cut: true },
        { name: 'QUANTITY', align: 'right' },
      ],
      rows: events.map((event) => [
        text(event, 'id'),
        text(event, 'tenant'),
        text(event, 'metric'),
        text(event, 'quantity'),
      ]),
      empty: `No such events in the window from ${time(from)}.`,
    },
  };
}

type Range = { readonly kind: 'range'; readonly from: string; readonly to: string };

async function windowOf({ api, option }: Given): Promise<Range | Failure> {
  const at = option('at');
  const moment = at === undefined ? undefined : Date.parse(at);
  if (moment !== undefined && Number.isNaN(moment)) {
    return {
      kind: 'failed',
      message: `not a time: --at: "${at}": write it as 2026-11-21T09:00:00Z`,
    };
  }
  const answer = await api.get('/api/v1/windows', { limit: moment === undefined ? '1' : '1000' });
  if (answer.kind === 'failed') return answer;
  const found = list(answer.value, 'windows').find(
    (window) =>
      moment === undefined ||
      (Date.parse(text(window, 'window_start')) <= moment &&
        moment < Date.parse(text(window, 'window_end'))),
  );
  if (found !== undefined) {
    return { kind: 'range', from: text(found, 'window_start'), to: text(found, 'window_end') };
  }
  if (moment === undefined) return { kind: 'failed', message: 'no window has closed yet' };
  // No report of the window is stored any more, so it lists the events of that minute.
  const minute = Math.floor(moment / 60_000) * 60_000;
  const [from = '', to = ''] = [minute, minute + 60_000].map((each) =>
    new Date(each).toISOString(),
  );
  return { kind: 'range', from, to };
}
