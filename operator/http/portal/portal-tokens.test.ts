import { createPrivateKey, createPublicKey } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { Secret } from '../../model/secret.ts';
import { testSettings } from '../testing/test-server.ts';
import { LONGEST_MS, PortalTokens } from './portal-tokens.ts';
import { SigningKeys } from './signing-keys.ts';
import { claimsOf, forge, newKey } from './testing/keys.ts';

const HOUR = 3_600_000;
const IDENTITY = { clusterName: 'main', region: 'eu-central-1' };
const WHOSE = { tenant: 'acme', series: '' };

/** Tokens of an operator whose keys and clock can be changed. */
function operator(keys: readonly string[], identity = IDENTITY) {
  const state = { now: Date.UTC(2026, 10, 21), keys: keys.map((key) => new Secret(key)) };
  const tokens = new PortalTokens({
    keys: new SigningKeys(() => state.keys),
    identity: () => identity,
    clock: { now: () => state.now },
  });
  const sign = async (validMs = HOUR, whose = WHOSE): Promise<string> => {
    const signed = await tokens.sign(whose, validMs);
    if (signed === undefined) throw new Error('no key');
    return signed.token;
  };
  return { state, tokens, sign, kindOf: async (token: string) => (await tokens.check(token)).kind };
}

describe.each(['ed25519', 'p256'] as const)('a token signed with %s', (kind) => {
  test('says whose it is, until it ends and never longer than a day', async () => {
    const { state, tokens, sign, kindOf } = operator([newKey(kind)]);
    const token = await sign(30 * 24 * HOUR);
    expect(await tokens.check(token)).toMatchObject({ kind: 'good', claims: WHOSE });
    state.now += LONGEST_MS - 1000;
    expect(await kindOf(token)).toBe('good');
    state.now += 62_000;
    expect(await kindOf(token)).toBe('ended');
  });

  test('that was changed anywhere is unknown', async () => {
    const { sign, kindOf } = operator([newKey(kind)]);
    const token = await sign();
    const other = await sign(HOUR, { tenant: 'globex', series: '' });
    const [head, claims, signature] = token.split('.');
    const [, otherClaims] = other.split('.');
    for (const bad of [
      `${head}.${otherClaims}.${signature}`,
      `${head}.${claims}.`,
      `${head}.${claims}`,
      token.slice(0, -8),
      `${token}.${signature}`,
      '',
      '..',
      'a.b.c',
    ]) {
      expect([bad, await kindOf(bad)]).toStrictEqual([bad, 'unknown']);
    }
  });
});

test('who knows the public key cannot sign with it, and a token does not choose how it is checked', async () => {
  const key = newKey();
  const { sign, kindOf } = operator([key]);
  const { header, claims } = claimsOf(await sign());
  const publicKey = createPublicKey(createPrivateKey(key)).export({ type: 'spki', format: 'pem' });
  const bytes = Buffer.from(publicKey.toString());
  expect(await kindOf(await forge(bytes, claims, { ...header, alg: 'HS256' }))).toBe('unknown');
  expect(await kindOf(await forge(newKey('p256'), claims, { ...header, alg: 'ES256' }))).toBe(
    'unknown',
  );
  expect(await kindOf(await forge(newKey(), claims, header))).toBe('unknown');
  expect(await kindOf(await forge(key, claims, { alg: 'EdDSA' }))).toBe('unknown');
  const none = Buffer.from('{"alg":"none"}').toString('base64url');
  expect(
    await kindOf(`${none}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.`),
  ).toBe('unknown');
  expect(await kindOf(await forge(key, claims, header))).toBe('good');
});

test('claims that no operator makes are refused even with its key', async () => {
  const key = newKey();
  const { state, sign, kindOf } = operator([key]);
  const { header, claims } = claimsOf(await sign());
  const now = Math.floor(state.now / 1000);
  for (const change of [
    { sub: undefined },
    { sub: '' },
    { jti: undefined },
    { series: 7 },
    { series: undefined },
    { aud: 'somebody-else' },
    { iss: 'meterfeed' },
    { exp: undefined },
    { iat: undefined },
    { iat: now + 3600, exp: now + 7200 },
    { nbf: now + 3600 },
  ]) {
    const forged = await forge(key, { ...claims, ...change }, header);
    expect([change, await kindOf(forged)]).toStrictEqual([change, 'unknown']);
  }
  const long = await forge(key, { ...claims, iat: now - 90_000, exp: now + 90_000 }, header);
  expect(await kindOf(long)).toBe('ended');
});

test('a clock that is a minute behind refuses no token that another process has just made', async () => {
  const { state, sign, kindOf } = operator([newKey()]);
  const token = await sign();
  state.now -= 60_000;
  expect(await kindOf(token)).toBe('good');
  state.now -= 1000;
  expect(await kindOf(token)).toBe('unknown');
});

test('a token of another cluster with the same key is not good here', async () => {
  const key = newKey();
  const { sign } = operator([key], { ...IDENTITY, clusterName: 'other' });
  expect(await operator([key]).kindOf(await sign())).toBe('unknown');
});

test('a rotation ends nobody: the new key signs, the old one is good until it is taken away', async () => {
  const [old, next] = [newKey(), newKey('p256')];
  const { state, sign, kindOf } = operator([old]);
  const before = await sign();
  state.keys = [next, old].map((key) => new Secret(key));
  const after = await sign();
  expect(claimsOf(after).header.alg).toBe('ES256');
  expect([await kindOf(before), await kindOf(after)]).toStrictEqual(['good', 'good']);
  state.keys = [new Secret(next)];
  expect([await kindOf(before), await kindOf(after)]).toStrictEqual(['unknown', 'good']);
  state.keys = [];
  expect(await kindOf(after)).toBe('unknown');
});

test('PORTAL_KEYS may be PEM as a Secret has it, several keys below each other', async () => {
  const keys = [newKey('p256'), newKey()];
  const { portalKeys } = testSettings({ PORTAL_KEYS: keys.join('') }).http;
  const { sign, kindOf } = operator(portalKeys.map((key) => key.reveal()));
  const token = await sign();
  expect(claimsOf(token).header.alg).toBe('ES256');
  expect(await kindOf(token)).toBe('good');
});
