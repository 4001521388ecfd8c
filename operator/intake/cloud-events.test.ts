import { CloudEvent, HTTP } from 'cloudevents';
import { describe, expect, test } from 'vitest';
import { ENVOY_EVENT_TYPE } from '../settings/parsers/gateway-presets.ts';
import { type EventData, eventMode, readEvents } from './cloud-events.ts';

const EVENT = {
  specversion: '1.0',
  id: 'e1',
  source: 'urn:gateway/1',
  type: 'tokens',
  subject: 'acme',
  time: '2026-11-21T09:00:00.123Z',
  data: { n: 7 },
};
const AT = Date.parse(EVENT.time);
const READ = {
  id: 'e1',
  source: 'urn:gateway/1',
  type: 'tokens',
  subject: 'acme',
  at: AT,
  data: { kind: 'json', value: { n: 7 } },
};
const ONE = 'application/cloudevents+json';
const BATCH = 'application/cloudevents-batch+json';
const JSON_TYPE = 'application/json';

function read(body: unknown, type: string, more: Readonly<Record<string, string>> = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return readEvents(Buffer.from(text), { 'content-type': type, ...more });
}

/** The only member of a body. */
function memberOf(body: unknown, type = ONE, more: Readonly<Record<string, string>> = {}) {
  const outcome = read(body, type, more);
  expect(outcome).toMatchObject({ kind: 'members', members: [expect.anything()] });
  return outcome.kind === 'members' ? outcome.members[0] : undefined;
}

const dataOf = (event: object): EventData | undefined => {
  const member = memberOf({ ...EVENT, ...event });
  return member?.kind === 'event' ? member.event.data : undefined;
};
const reasonOf = (event: object): string => {
  const member = memberOf({ ...EVENT, ...event });
  return member?.kind === 'problem' ? member.reason : 'accepted';
};

describe('a sender of CloudEvents that is not understood', () => {
  test.each([
    ['structured', ONE, EVENT],
    ['structured, with parameters', `${ONE}; charset=utf-8`, EVENT],
    ['structured, in capitals', 'Application/CloudEvents+JSON;Charset="UTF-8"', EVENT],
    ['batched', BATCH, [EVENT]],
    ['batched, with parameters', `${BATCH};charset=utf-8`, [EVENT]],
    ['plain JSON', JSON_TYPE, EVENT],
    ['an array of plain JSON', `${JSON_TYPE}; charset=utf-8`, [EVENT]],
  ])('%s', (_, type, body) => {
    expect(memberOf(body, type)).toStrictEqual({ kind: 'event', event: READ });
  });

  test('the SDK, structured', () => {
    const { body, headers } = HTTP.structured(new CloudEvent(EVENT));
    const member = memberOf(String(body), String(headers['content-type']));
    expect(member).toStrictEqual({ kind: 'event', event: READ });
  });

  test('the SDK, binary', () => {
    const { body, headers } = HTTP.binary(new CloudEvent({ ...EVENT, subject: 'acme' }));
    const texts = Object.entries(headers).map(([name, value]) => [name, String(value)] as const);
    const member = memberOf(String(body), JSON_TYPE, Object.fromEntries(texts));
    expect(member).toStrictEqual({ kind: 'event', event: READ });
  });

  test('the SDK, batched by hand', () => {
    const events = ['e1', 'e2'].map((id) => new CloudEvent({ ...EVENT, id }));
    const outcome = read(`[${events.map(String).join()}]`, BATCH);
    expect(outcome).toMatchObject({
      members: [{ event: { id: 'e1' } }, { event: { id: 'e2', data: READ.data } }],
    });
  });

  test('binary, with names that headers cannot have', () => {
    const headers = {
      'ce-specversion': '1.0',
      'ce-id': '%C3%A9%20%2525',
      'ce-source': '"a \\"b\\""',
      'ce-type': 'tokens',
      'ce-subject': 'K%C3%B6ln',
    };
    expect(memberOf({ n: 7 }, 'application/vnd.acme+json', headers)).toMatchObject({
      event: { id: 'é %25', source: 'a "b"', subject: 'Köln', at: undefined, data: READ.data },
    });
    expect(memberOf({}, JSON_TYPE, { ...headers, 'ce-id': '%zz' })).toMatchObject({
      reason: 'not percent-encoded: ce-id: "%zz"',
    });
  });

  test('null attributes are absent', () => {
    const nulls = { subject: null, time: null, datacontenttype: null, data_base64: null };
    expect(memberOf({ ...EVENT, ...nulls })).toStrictEqual({
      kind: 'event',
      event: { ...READ, subject: undefined, at: undefined },
    });
    expect(reasonOf({ id: null })).toBe('missing: id: "none"');
  });

  test.each([
    ['2026-11-28T13:22:27.123456+00:00', '2026-11-28T13:22:27.123Z'],
    ['2026-11-28T13:22:27.123456', '2026-11-28T13:22:27.123Z'],
    ['2026-11-28t15:22:27.123456789+02:00', '2026-11-28T13:22:27.123Z'],
    ['2026-11-28 13:22:27z', '2026-11-28T13:22:27.000Z'],
  ])('the time %s', (time, expected) => {
    expect(memberOf({ ...EVENT, time })).toMatchObject({ event: { at: Date.parse(expected) } });
  });

  test('Envoy AI Gateway, which has a JSON of its own', () => {
    const usage = { schema_version: 'v1', event_id: 'r|b', emitted_at: AT, input_tokens: 9 };
    expect(memberOf(usage, JSON_TYPE)).toStrictEqual({
      kind: 'event',
      event: {
        id: 'r|b',
        source: 'envoy',
        type: ENVOY_EVENT_TYPE,
        at: AT,
        data: { kind: 'json', value: usage },
      },
    });
    expect(memberOf({ ...usage, emitted_at: 'now' }, JSON_TYPE)).toMatchObject({
      reason: 'not milliseconds: emitted_at: "now"',
      id: 'r|b',
    });
  });

  test('data in base64', () => {
    const data_base64 = Buffer.from('{"n":7}').toString('base64');
    const encoded = { data: undefined, data_base64 };
    expect(dataOf({ ...encoded, datacontenttype: 'application/json' })).toStrictEqual(READ.data);
    expect(dataOf(encoded)).toMatchObject({ reason: 'not JSON: datacontenttype: "none"' });
    expect(dataOf({ data_base64 })).toMatchObject({ kind: 'unreadable' });
  });

  test('data that is not JSON is no reason to refuse an event that no rule reads', () => {
    expect(dataOf({ datacontenttype: 'text/csv', data: 'a' })).toMatchObject({
      kind: 'unreadable',
      reason: 'not JSON: datacontenttype: "text/csv"',
    });
  });
});

describe('a bad event', () => {
  test.each([
    [{ specversion: undefined }, 'missing: specversion: "none"'],
    [{ specversion: '0.3' }, 'not 1.0: specversion: "0.3"'],
    [{ source: '' }, 'missing: source: ""'],
    [{ id: 7 }, 'not a text: id: "7"'],
    [{ type: 'a\u0000b' }, 'control characters: type: "a\\u0000b"'],
    [{ id: 'x'.repeat(1025) }, 'longer than 1024 characters: id: '],
    [{ time: 'yesterday' }, 'not a time such as 2026-11-21T09:00:00Z: time: "yesterday"'],
    [{ time: '2026-02-30T00:00:00Z' }, 'not a time such as'],
  ])('%j is named', (event, reason) => {
    expect(reasonOf(event)).toContain(reason);
  });

  test('does not spoil its neighbours', () => {
    const outcome = read([EVENT, 7, { ...EVENT, type: null }, null], BATCH);
    expect(outcome).toMatchObject({
      members: [
        { kind: 'event' },
        { kind: 'problem', reason: 'not an object: event: "7"' },
        { kind: 'problem', id: 'e1', source: 'urn:gateway/1', reason: 'missing: type: "none"' },
        { kind: 'problem', reason: 'not an object: event: "null"' },
      ],
    });
  });

  test('an empty batch is a batch', () => {
    expect(read([], BATCH)).toStrictEqual({ kind: 'members', members: [] });
  });
});

describe('our own usage events stay ours', () => {
  const own = { tenant: 'acme', metric: 'llm_tokens', quantity: 1, schema_version: 'svc.usage/v1' };
  test.each([own, [own], { events: [own] }, [], { ...own, properties: { specversion: '1' } }])(
    '%j',
    (body) => {
      expect(read(body, JSON_TYPE)).toStrictEqual({ kind: 'usage-events' });
    },
  );

  test('the media type decides before the body is read', () => {
    const modes = [JSON_TYPE, ONE, BATCH, 'text/plain', undefined].map((type) =>
      eventMode({ 'content-type': type }),
    );
    expect(modes).toStrictEqual(['json', 'structured', 'batched', undefined, undefined]);
    expect(eventMode({ 'ce-specversion': '1.0' })).toBe('binary');
  });
});

describe('a hostile body', () => {
  test.each([
    ['too deep', `${'['.repeat(17)}${']'.repeat(17)}`, 400],
    ['too many values', `[${'[],'.repeat(80_000)}1]`, 413],
    ['too many events', `[${'1,'.repeat(5000)}1]`, 413],
    ['not JSON', '{', 400],
    ['nothing', '', 400],
  ])('%s', (_, body, status) => {
    expect(read(body, BATCH)).toMatchObject({ kind: 'unreadable', status });
  });

  test('of another type', () => {
    expect(read(EVENT, 'text/plain')).toMatchObject({ kind: 'unreadable', status: 415 });
  });

  test('that is no UTF-8', () => {
    const outcome = readEvents(Buffer.from([0x22, 0xff, 0x22]), { 'content-type': ONE });
    expect(outcome).toMatchObject({ kind: 'unreadable', status: 400 });
  });

  test('with data that is hostile itself', () => {
    const deep = Buffer.from(`${'['.repeat(20)}${']'.repeat(20)}`).toString('base64');
    const event = { data: null, data_base64: deep, datacontenttype: 'application/json' };
    expect(dataOf(event)).toMatchObject({ reason: expect.stringContaining('nested too deeply') });
  });
});
