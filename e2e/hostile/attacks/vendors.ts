import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { isRecord } from '../../../operator/model/is-record.ts';
import type { Random } from '../../faults/random.ts';
import { sendText, writeOn } from './lie.ts';
import { mutated } from './mutate.ts';
import { expandMarks, hostileText, hostileValue } from './values.ts';

/** The honest answer of a billing system, which an attack may bend. */
export interface VendorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface VendorExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly answer: VendorAnswer;
}

/** How billing systems answer while an attack is under way. */
export interface VendorAttack {
  readonly name: string;
  make(random: Random): (exchange: VendorExchange) => void;
}

export const VENDOR_ATTACKS: readonly VendorAttack[] = [
  {
    name: 'answers that are mutated',
    make:
      (random) =>
      ({ response, answer }) => {
        const parsed = parsedOf(answer.body);
        const body = isRecord(parsed) ? mutated(parsed, random) : hostileValue(random);
        sendText(response, answer.status, expandMarks(JSON.stringify(body) ?? 'null'));
      },
  },
  {
    name: 'huge answers',
    make: (random) => {
      const chunk = Buffer.alloc(64 * 1024, random.pick(['[', '{"a":', 'x', ' ']));
      return ({ response }) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        void writeOn(response, () => chunk);
      };
    },
  },
  {
    name: 'answers that are no JSON',
    make: (random) => {
      const body = random.pick([
        '',
        '<html>',
        'null',
        '[]',
        '{"a":',
        '\0',
        '0',
        '['.repeat(300_000),
      ]);
      return ({ response, answer }) => sendText(response, answer.status, body);
    },
  },
  {
    name: 'slow answers',
    make: (random) => {
      const restMs = random.pick([50, 500]);
      return ({ response, answer }) => {
        response.writeHead(answer.status, { 'content-type': 'application/json' });
        void writeOn(response, () => ' ', restMs);
      };
    },
  },
  { name: 'no answer', make: () => () => undefined },
  {
    name: 'redirects',
    make: (random) => {
      const location = random.pick([
        'http://169.254.169.254/',
        '/',
        '//x/',
        'file:///etc/passwd',
        '?',
      ]);
      const code = random.pick([301, 302, 307, 308]);
      return ({ response }) => sendText(response, code, '', { location });
    },
  },
  {
    name: 'bad headers',
    make: (random) => {
      const after = random.pick([
        '1e309',
        '-1',
        '999999999999',
        'never',
        'Fri, 31 Dec 9999 23:59:59 GMT',
      ]);
      const code = random.pick([200, 400, 401, 402, 403, 404, 409, 422, 429, 500, 503]);
      return ({ response }) => {
        response.setHeader('retry-after', after);
        for (let index = 0; index < 200; index += 1) response.setHeader(`x-${index}`, 'y');
        sendText(response, code, '{}');
      };
    },
  },
  {
    name: 'refusals that repeat what was sent',
    make: (random) => {
      const code = random.pick([400, 401, 403, 404, 409, 422, 429, 500]);
      return ({ request, response }) => {
        const message = `${request.headers.authorization ?? ''} ${request.url ?? ''} ${hostileText(random)}`;
        const error = { message, code: message, type: message, param: message };
        sendText(
          response,
          code,
          JSON.stringify({ error, message, error_details: error, code: message }),
        );
      };
    },
  },
  {
    name: 'compressed bombs',
    make: () => {
      const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024, ' '));
      return ({ response }) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
        response.end(bomb);
      };
    },
  },
  {
    name: 'cut connections',
    make: (random) => {
      const after = random.pick([0, 100]);
      return ({ response }) => {
        if (after > 0) response.write('{"a":');
        setTimeout(() => response.destroy(), after);
      };
    },
  },
];

function parsedOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
