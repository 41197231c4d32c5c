// Prisma: units of work. Arguments: the URL's part behind the driver, how many, how their names begin.
const { PrismaPg } = require('@prisma/adapter-pg');
const { PrismaClient } = require('@prisma/client');

async function main() {
  const adapter = new PrismaPg({ connectionString: `postgresql://${process.argv[2]}`, application_name: 'retried', max: 2 });
  const prisma = new PrismaClient({ adapter });
  for (let number = 0; number < Number(process.argv[3]); number++) {
    const work = async (transaction) => {
      await transaction.counter.updateMany({ data: { value: { increment: 1 } } });
      await transaction.unit.create({ data: { name: process.argv[4] + number } });
    };
    await runPrisma(prisma, work, 200);
  }
  await prisma.$disconnect();
}

main();
