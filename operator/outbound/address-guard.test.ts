import { expect, test } from 'vitest';
import {
  addressProblem,
  createGuardedLookup,
  embeddedIpv4,
  RefusedAddressError,
} from './address-guard.ts';

test.each([
  '169.254.169.254',
  '169.254.0.1',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  'fe80::1',
  'fe80::1%eth0',
  'fd00:ec2::254',
  'fd20:ce::254',
  '::ffff:169.254.169.254',
  '::ffff:a9fe:a9fe',
  '[::ffff:a9fe:a9fe]',
  '::169.254.169.254',
  '64:ff9b::a9fe:a9fe',
  '2002:a9fe:a9fe::1',
  '::ffff:0:169.254.169.254',
])('a configured address cannot reach the metadata service as %s', (address) => {
  expect(addressProblem(address)).toMatch(/^address not allowed: link-local or cloud metadata: "/);
});

test.each([
  '127.0.0.1',
  '::1',
  '10.0.0.1',
  '192.168.1.1',
  '172.16.0.1',
  'fd12:3456::1',
  '8.8.8.8',
  '2606:4700::1111',
  '169.253.255.255',
  '::ffff:10.0.0.1',
  'lago.example.com',
])('an administrator may use %s', (address) => {
  expect(addressProblem(address)).toBeUndefined();
});

test.each(['http://2852039166/', 'http://0xa9fea9fe/', 'http://0251.0376.0251.0376/'])(
  'a number in place of the address is the address: %s',
  (url) => {
    expect(addressProblem(new URL(url).hostname)).toContain('169.254.169.254');
  },
);

test.each([
  ['::ffff:10.0.0.1', '10.0.0.1'],
  ['0:0:0:0:0:FFFF:0A00:0001', '10.0.0.1'],
  ['::10.0.0.1', '10.0.0.1'],
  ['::ffff:0:10.0.0.1', '10.0.0.1'],
  ['64:ff9b::a00:1', '10.0.0.1'],
  ['2002:a00:1:2::3', '10.0.0.1'],
  ['::ffff:255.254.253.252%eth0', '255.254.253.252'],
  ['::1', '0.0.0.1'],
  ['2001:db8::a00:1', undefined],
  ['64:ff9b:1::a00:1', undefined],
  ['10.0.0.1', undefined],
  ['lago.example.com', undefined],
])('the IPv4 address in %s is %s', (address, ipv4) => {
  expect(embeddedIpv4(address)).toBe(ipv4);
});

test('one bad answer among good ones is enough to refuse a name', async () => {
  const lookup = createGuardedLookup((_name, _options, callback) => {
    callback(null, [
      { address: '93.184.216.34', family: 4 },
      { address: 'fe80::1', family: 6 },
    ]);
  });
  const error = await new Promise((resolve) => {
    lookup('rebind.example.com', { all: true }, (problem, _addresses) => resolve(problem));
  });
  expect(error).toBeInstanceOf(RefusedAddressError);
});
