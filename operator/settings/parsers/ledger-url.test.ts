import { expect, test } from 'vitest';
import { revealed } from '../testing/effects.ts';
import { ledgerUrl } from './ledger-url.ts';

function parse(text: string): unknown {
  const parsed = ledgerUrl().parse(text);
  return parsed.kind === 'value' ? revealed(parsed.value) : parsed.what;
}

test('the database is another one than the URL names', () => {
  expect(parse('postgresql://m:p%40ss@db.example.com/ledger')).toStrictEqual({
    host: 'db.example.com',
    port: 5432,
    name: 'ledger',
    user: 'm',
    password: 'p@ss',
    tls: { mode: 'verify-full', caFile: undefined },
  });
  expect(parse('postgres://m@[::1]:6000/l?sslmode=disable')).toStrictEqual({
    host: '::1',
    port: 6000,
    name: 'l',
    user: 'm',
    tls: { mode: 'disable', caFile: undefined },
  });
  expect(parse('postgresql://m@h/l?sslmode=require&sslrootcert=/etc/ca.pem')).toMatchObject({
    tls: { mode: 'require', caFile: '/etc/ca.pem' },
  });
});

test.each([
  ['mysql://m@h/l', 'not a PostgreSQL URL'],
  ['postgresql://', 'no host'],
  ['postgresql://h/l', 'no user'],
  ['postgresql://m@h', 'no name of one database'],
  ['postgresql://m@h/a/b', 'no name of one database'],
  ['postgresql://m@h,i/l', 'more than one host'],
  ['postgresql://m:p%@h/l', 'a part that is not percent-encoded correctly'],
  ['postgresql://m@h/l?sslmode=prefer', 'an unknown sslmode'],
  ['postgresql://m@h/l?sslrootcert=ca.pem', 'sslrootcert is no absolute path'],
  ['postgresql://m@h/l?host=/tmp', 'an unknown parameter'],
  ['postgresql://m@h/l#x', 'a part after #'],
])('%s is taken', (text, what) => {
  expect(parse(text)).toBe(what);
});
