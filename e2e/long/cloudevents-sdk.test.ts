import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { startGatewayServer, tokensOf } from '../../operator/http/testing/gateway-server.ts';
import { INGEST_TOKEN, NOW } from '../../operator/http/testing/test-server.ts';
import { REQUIREMENTS } from '../litellm/proxy.ts';
import { preparePython } from '../python/environment.ts';

const CLIENT = resolve(import.meta.dirname, '../litellm/sdk_client.py');

test('four events of the Python SDK, in three modes and sent twice, count once', async () => {
  await using server = await startGatewayServer({ environment: { INGEST_TOKEN } });
  const python = join(await preparePython(REQUIREMENTS), 'bin/python');
  const url = `http://127.0.0.1:${server.port}/api/v1/events`;
  const args = [CLIENT, url, INGEST_TOKEN, new Date(NOW).toISOString()];
  for (let time = 0; time < 2; time += 1) {
    const { stdout } = await promisify(execFile)(python, args);
    expect(stdout.split('\n').slice(0, -1)).toStrictEqual(['204', '204', '204']);
  }
  expect(tokensOf(server, 'acme')).toStrictEqual({ input: '48', output: '28' });
}, 900_000);
