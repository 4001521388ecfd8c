import { generateKeyPairSync } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { signingKeys } from './signing-keys.ts';

const pkcs8 = { type: 'pkcs8', format: 'pem' } as const;
const ed25519 = () => generateKeyPairSync('ed25519').privateKey.export(pkcs8).toString();
const p256 = (type: 'pkcs8' | 'sec1') =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' })
    .privateKey.export({ type, format: 'pem' })
    .toString();

test('keys of a rotation keep their order: the first is the one that signs', () => {
  const keys = [ed25519(), p256('pkcs8'), p256('sec1')];
  const parsed = signingKeys().parse(keys.join('\n'));
  if (parsed.kind !== 'value') throw new Error(parsed.what);
  expect(parsed.value.map((key) => `${key.reveal()}\n`)).toStrictEqual(keys);
});

test('keys that sign nothing here are refused, and nothing of them is shown', () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const other = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey;
  for (const text of [
    '',
    'canary',
    `${ed25519()}canary`,
    ed25519().replace(/\n[A-Za-z]/, '\nX'),
    privateKey.export(pkcs8).toString(),
    other.export(pkcs8).toString(),
    Array.from({ length: 9 }, ed25519).join(''),
  ]) {
    const parsed = signingKeys().parse(text);
    expect(parsed.kind).toBe('problem');
    expect(JSON.stringify(parsed)).not.toContain(text.slice(40, 60) || 'canary');
  }
});

test('no text makes the operator end', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const wrapped = `-----BEGIN PRIVATE KEY-----\n${text}\n-----END PRIVATE KEY-----`;
      expect(signingKeys().parse(text).kind).toBe('problem');
      expect(signingKeys().parse(wrapped).kind).toBe('problem');
    }),
  );
});
