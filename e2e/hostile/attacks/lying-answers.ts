import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Random } from '../../faults/random.ts';
import { type Requested, type Liar, type Lie, sendJson, sendText, writeOn } from './lie.ts';
import { hostileText, hostileValue } from './values.ts';

/** Answers that are none of an API server: slow, endless, compressed, redirected, refused with nonsense. */
export const LYING_ANSWERS: readonly Liar[] = [
  {
    name: 'an answer without an end',
    make: (random) => {
      const chunk = Buffer.alloc(64 * 1024, random.pick(['{"items":[{}', ' ', '\0', '[']));
      return often(random, (_requested, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        void writeOn(response, () => chunk);
      });
    },
  },
  {
    name: 'a byte now and then',
    make: (random) => {
      const restMs = random.pick([50, 400, 2_000]);
      return often(random, (_requested, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        void writeOn(response, () => ' ', restMs);
      });
    },
  },
  { name: 'silence', make: (random) => often(random, () => undefined) },
  {
    name: 'a cut connection',
    make: (random) => {
      const after = random.pick([0, 10, 1_000]);
      return often(random, (_requested, response) => {
        if (after > 0) response.write(' '.repeat(after));
        setTimeout(() => response.destroy(), random.pick([0, 20, 500]));
      });
    },
  },
  {
    name: 'a redirect',
    make: (random) => {
      const to = random.pick(TARGETS);
      const code = random.pick([301, 302, 303, 307, 308]);
      return often(random, (_requested, response) =>
        sendText(response, code, '', { location: to, 'content-type': 'text/html' }),
      );
    },
  },
  {
    name: 'a refusal that repeats the credential',
    make: (random) => {
      const code = random.pick([400, 401, 403, 409, 410, 422, 429, 500, 503]);
      return often(random, ({ authorization, url }, response) => {
        const message = `${authorization} ${url} ${hostileText(random)}`;
        const body = { kind: 'Status', status: 'Failure', message, reason: message, code };
        response.setHeader('x-request', encodeURIComponent(authorization));
        sendJson(response, code, body);
      });
    },
  },
  {
    name: 'a refusal with nonsense',
    make: (random) => {
      const code = random.pick([
        100, 204, 205, 206, 304, 400, 401, 404, 410, 418, 429, 500, 503, 999,
      ]);
      const after = random.pick(['1e309', '-1', '99999999999999999999', 'never', '0', '']);
      return often(random, (_requested, response) => {
        response.setHeader('retry-after', after);
        sendJson(response, code < 200 ? 500 : code, hostileValue(random));
      });
    },
  },
  {
    name: 'a web page',
    make: (random) =>
      often(random, (_requested, response) =>
        sendText(response, 200, '<html>Sign in</html>', {
          'content-type': 'text/html; charset=utf-16',
          'set-cookie': 'a=b',
        }),
      ),
  },
  {
    name: 'headers without an end',
    make: (random) => {
      const count = random.pick([50, 500, 5_000]);
      return often(random, (_requested, response) => {
        for (let index = 0; index < count; index += 1) {
          response.setHeader(`x-${index}`, 'y'.repeat(random.pick([1, 100])));
        }
        sendText(response, 200, '{}');
      });
    },
  },
  {
    name: 'a compressed bomb',
    make: (random) => {
      const bomb = gzipSync(Buffer.alloc(random.pick([1, 50]) * 1024 * 1024, '{"a":'));
      return often(random, (_requested, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
        response.end(bomb);
      });
    },
  },
  {
    name: 'a length that is not true',
    make: (random) => {
      const length = random.pick(['0', '1', '99999999', '18446744073709551616', '-1']);
      return often(random, (_requested, response) => {
        const { socket } = response;
        const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
        socket?.write(`${head}{"metadata":{"resourceVersion":"1"},"items":[]}`);
      });
    },
  },
  {
    name: 'what is no HTTP',
    make: (random) => {
      const text = random.pick(NO_HTTP);
      return often(random, (_requested, response) => {
        response.socket?.end(text);
      });
    },
  },
];

/** Where a credential must not be carried: metadata services, the operator's own machine, files. */
const TARGETS: readonly string[] = [
  'http://169.254.169.254/latest/meta-data/',
  'https://169.254.169.254/',
  'http://127.0.0.1:8080/api/v1/status',
  'https://[::1]/',
  'https://[::ffff:169.254.169.254]/',
  'file:///etc/passwd',
  '//evil.example/',
  '/',
  '?limit=1',
  'x'.repeat(7_000),
];

const NO_HTTP: readonly string[] = [
  'HTTP/1.1 200\r\n\r\n',
  'HTTP/9.9 200 OK\r\n\r\n',
  'HTTP/1.1 99999 OK\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n',
  'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n',
  'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n',
  `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`,
  'SSH-2.0-OpenSSH_9.6\r\n',
  '\0\0\0\0',
  'HTTP/1.1 100 Continue\r\n\r\n'.repeat(5_000),
];

/** Takes all requests, lists only, watches only, or every second one. */
function often(
  random: Random,
  answer: (requested: Requested, response: ServerResponse) => void,
): Lie {
  const which = random.pick(['all', 'lists', 'watches', 'half'] as const);
  let count = 0;
  return {
    takes: ({ isWatch }) => {
      count += 1;
      if (which === 'all') return true;
      if (which === 'half') return count % 2 === 0;
      return isWatch === (which === 'watches');
    },
    answer,
  };
}
