import { createServer } from 'node:http';

/** Stands in for the operator where only starting and stopping it is tested: answers every path. */
const [host = '', port = ''] = (process.env['LISTEN_ADDR'] ?? '').split(':');
const server = createServer((_request, response) => response.end('{}'));
server.listen(Number(port), host, () => console.log(`stub operator at ${host}:${port}`));
process.once('SIGTERM', () => {
  console.log('stub operator stops');
  server.close();
  server.closeAllConnections();
});
