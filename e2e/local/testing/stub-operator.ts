import { createServer } from 'node:http';

/**
 * Stands in for the operator where only starting and stopping it is tested: answers every path, those of the API to who has
 * the token, and tells what it was sent.
 */
const [host = '', port = ''] = (process.env['LISTEN_ADDR'] ?? '').split(':');
const token = process.env['API_TOKEN'] ?? '';
const ANSWER = JSON.stringify({ balances: [], link: '/portal#token=of-the-stub' });
const server = createServer((request, response) => {
  const { method, url = '', headers } = request;
  const isOpen = token === '' || !url.startsWith('/api/');
  response.writeHead(isOpen || headers.authorization === `Bearer ${token}` ? 200 : 401);
  request.setEncoding('utf8');
  request.on('data', (body: string) => console.log(`stub operator got ${method} ${url} ${body}`));
  request.on('end', () => response.end(ANSWER));
});
server.listen(Number(port), host, () => console.log(`stub operator at ${host}:${port}`));
process.once('SIGTERM', () => {
  console.log('stub operator stops');
  server.close();
  server.closeAllConnections();
});
