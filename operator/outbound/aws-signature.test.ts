import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import { Secret } from '../model/secret.ts';
import { encodeKey, signatureHeaders } from './aws-signature.ts';

/** The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */
const KEY = {
  accessKeyId: new Secret('AKIAIOSFODNN7EXAMPLE'),
  secretAccessKey: new Secret('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'),
  region: 'us-east-1',
};
const HOST = 'examplebucket.s3.amazonaws.com';
const AT = Date.parse('2013-05-24T00:00:00Z');

test('signs an object as the example of AWS does, or every PUT would be refused', () => {
  const { authorization } = signatureHeaders(
    {
      method: 'PUT',
      host: HOST,
      path: `/${encodeKey('test$file.text')}`,
      headers: {
        Date: 'Fri, 24 May 2013 00:00:00 GMT',
        'x-amz-storage-class': 'REDUCED_REDUNDANCY',
      },
      sha256: hash('sha256', 'Welcome to Amazon S3.', 'hex'),
    },
    KEY,
    AT,
  );
  expect(authorization).toBe(
    'AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, ' +
      'SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class, ' +
      'Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  );
});

test('signs a read without a body as the example of AWS does', () => {
  const { authorization } = signatureHeaders(
    {
      method: 'GET',
      host: HOST,
      path: '/test.txt',
      headers: { Range: 'bytes=0-9' },
      sha256: hash('sha256', '', 'hex'),
    },
    KEY,
    AT,
  );
  expect(authorization).toContain(
    'Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  );
});

test('encodes the signs of a key that are part of a path, not its slashes', () => {
  expect(encodeKey("a b/billing_period=2026-11/(x)*'!~é")).toBe(
    'a%20b/billing_period%3D2026-11/%28x%29%2A%27%21~%C3%A9',
  );
});
