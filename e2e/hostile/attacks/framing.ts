import type { Random } from '../../faults/random.ts';
import { again, hold, type PeerMeans } from './peer-requests.ts';
import type { PeerAttack } from './peers.ts';

/** Requests whose end two readers may see in different places, or that speak of headers that others rely on. */
export const FRAMING_ATTACKS: readonly PeerAttack[] = [
  {
    name: 'requests without one end',
    make: (random) => {
      const isProbe = random.chance(0.3);
      return (means) =>
        again(means, 10, () => hold(means, 4, requestOf(means, random), isProbe, 50));
    },
  },
  {
    name: 'many requests at once on one connection',
    make: (random) => {
      const count = random.pick([10, 200, 2_000]);
      const isProbe = random.chance(0.3);
      return (means) =>
        again(means, 50, () => {
          const texts = Array.from({ length: count }, () => requestOf(means, random));
          return hold(means, 2, texts.join(''), isProbe, 200);
        });
    },
  },
];

const PATHS = ['/healthz', '/api/v1/status', '/api/v1/tenants', '/api/v1/events', '/webhooks/lago'];

const FRAMES: readonly (readonly [headers: string, body: string])[] = [
  ['Transfer-Encoding: chunked', '5\r\nhello\r\n0\r\n\r\n'],
  ['Transfer-Encoding: chunked', '5;x=y\r\nhello\r\n0\r\nAuthorization: Bearer x\r\n\r\n'],
  ['Transfer-Encoding: chunked', '7fffffff\r\nhello'],
  ['Transfer-Encoding: chunked', `1;${'x'.repeat(100_000)}\r\na\r\n0\r\n\r\n`],
  ['Transfer-Encoding: chunked\r\nTransfer-Encoding: identity', '0\r\n\r\n'],
  ['Transfer-Encoding: chunked, chunked', '0\r\n\r\n'],
  ['Transfer-Encoding: xchunked', '0\r\n\r\n'],
  ['Transfer-Encoding : chunked', '0\r\n\r\n'],
  [
    'Content-Length: 4\r\nTransfer-Encoding: chunked',
    '0\r\n\r\nGET /api/v1/tenants HTTP/1.1\r\nHost: x\r\n\r\n',
  ],
  ['Content-Length: 5\r\nContent-Length: 6', 'hello'],
  ['Content-Length: +5', 'hello'],
  ['Content-Length: 5', 'hello'],
  ['Connection: content-length\r\nContent-Length: 5', 'hello'],
  ['Connection: transfer-encoding\r\nTransfer-Encoding: chunked', '5\r\nhello\r\n0\r\n\r\n'],
  ['Connection: authorization, host, x-meterfeed-token', ''],
  [
    'Connection: close, keep-alive, upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAA',
    '',
  ],
  ['X-A: b\r\n c: d', ''],
  ['X-A: b\rContent-Length: 5', 'hello'],
  ['Expect: 100-continue\r\nTransfer-Encoding: chunked', '5\r\nhello\r\n0\r\n\r\n'],
];

function requestOf({ ingestToken }: PeerMeans, random: Random): string {
  const method = random.pick(['GET', 'GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS']);
  const [headers, body] = random.pick(FRAMES);
  const token = random.chance(0.5) ? `Authorization: Bearer ${ingestToken}\r\n` : '';
  return `${method} ${random.pick(PATHS)} HTTP/1.1\r\nHost: x\r\n${token}${headers}\r\n\r\n${body}`;
}
