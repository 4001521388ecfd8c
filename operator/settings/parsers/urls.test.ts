import { expect, test } from 'vitest';
import { listenAddress } from './hosts.ts';
import { baseUrl, maskUrl, prometheusUrl, url } from './urls.ts';

test.each([
  'http://169.254.169.254/latest',
  'http://2852039166/',
  'http://0xa9fea9fe/',
  'http://169.254.1',
  'http://[fe80::1]/',
  'http://[::ffff:169.254.169.254]/',
  'http://[::ffff:a9fe:a9fe]/',
  'http://[64:ff9b::a9fe:a9fe]/',
  'http://[fd00:ec2::254]/',
  'http://metadata.google.internal/',
  'http://METADATA.google.internal./',
  'http://100.100.100.200/',
  'http://168.63.129.16/',
])('%s would fetch credentials of the machine', (text) => {
  expect(url().parse(text)).toMatchObject({
    kind: 'problem',
    what: 'a link-local or cloud metadata address',
  });
});

test.each([
  'ftp://x.example.com',
  'x.example.com',
  '//x.example.com',
  'https://',
  'https:///path',
  'https://x y.example.com',
  'https://x.example.com#part',
  'https://x.example.com:99999',
  'https://user@x.example.com',
  'javascript:alert(1)',
])('%s is taken for a destination', (text) => {
  expect(url().parse(text).kind).toBe('problem');
});

test.each([
  ['http://localhost:3000', 'http://localhost:3000'],
  ['https://10.1.2.3/base//', 'https://10.1.2.3/base'],
  ['HTTPS://Lago.Example.com', 'https://lago.example.com'],
])('paths appended to the base %s get two slashes', (text, value) => {
  expect(baseUrl().parse(text)).toStrictEqual({ kind: 'value', value });
});

test('the base of an API carries a query into every path', () => {
  expect(baseUrl().parse('https://x.example.com?a=b').kind).toBe('problem');
  expect(prometheusUrl().parse('https://x.example.com?').kind).toBe('problem');
});

test.each([
  ['https://user:pass@x.example.com/p?token=t', 'https://***@x.example.com/p?***'],
  ['https://user:pa/ss@x.example.com', 'https://***@x.example.com'],
  ['https://user:pa?ss@x.example.com', 'https://***?***'],
  ['user:pass@x', '***@x'],
  ['https://x.example.com/p', 'https://x.example.com/p'],
])('%s shows its credentials', (text, shown) => {
  expect(maskUrl(text)).toBe(shown);
});

test.each([
  [':8080', '', 8080],
  ['0.0.0.0:0', '0.0.0.0', 0],
  ['localhost:80', 'localhost', 80],
  ['[::]:8080', '::', 8080],
])('%s listens elsewhere', (text, host, port) => {
  expect(listenAddress().parse(text)).toStrictEqual({ kind: 'value', value: { host, port } });
});

test.each(['', ':', 'x', '::1:80', '[x]:80', '1.2.3:80', '300.1.1.1:80', 'a_b:80', ':-1', ':8o'])(
  '"%s" is taken for a listen address',
  (text) => {
    expect(listenAddress().parse(text).kind).toBe('problem');
  },
);
