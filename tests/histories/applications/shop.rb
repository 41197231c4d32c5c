# Migrations as Rails projects write them, for ActiveRecord without Rails. ruby shop.rb up|down, PGHOST and its like in the environment.
require 'active_record'

class CreateShops < ActiveRecord::Migration[6.1]
  def change
    create_table(:shops) { |t| t.string :name, null: false; t.timestamps }
    create_table(:items) do |t|
      t.string :name, null: false
      t.references :shop, null: false, foreign_key: true
      t.timestamps
    end
  end
end

class AddPriceToItems < ActiveRecord::Migration[6.1]
  def change
    add_column :items, :price, :integer, null: false, default: 0
    add_column :items, :code, :uuid, null: false, default: -> { 'gen_random_uuid()' }
    add_index :items, :code, unique: true
  end
end

class CreateTags < ActiveRecord::Migration[6.1]
  def change
    create_table(:tags) { |t| t.string :name, null: false, index: { unique: true } }
    create_join_table(:items, :tags) { |t| t.index [:tag_id, :item_id], unique: true }  # without a primary key
  end
end

class IndexNamesConcurrently < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!
  def up
    add_index :items, 'lower(name)', name: 'items_lower_name', algorithm: :concurrently
    add_index :items, %i[shop_id price], algorithm: :concurrently
  end

  def down
    remove_index :items, column: %i[shop_id price], algorithm: :concurrently
    remove_index :items, name: 'items_lower_name', algorithm: :concurrently
  end
end

class AddStateOfItems < ActiveRecord::Migration[6.1]
  def up
    execute "CREATE TYPE item_state AS ENUM ('new', 'sold')"
    add_column :items, :state, :item_state, null: false, default: 'new'
    execute "UPDATE items SET state = 'sold' WHERE price > 100"
  end

  def down
    remove_column :items, :state
    execute 'DROP TYPE item_state'
  end
end

class AddAValueOfTheState < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!
  def up
    execute "ALTER TYPE item_state ADD VALUE IF NOT EXISTS 'returned'"
  end

  def down; end
end

class UseTheValue < ActiveRecord::Migration[6.1]
  def up
    change_column_default :items, :state, from: 'new', to: 'returned'
    change_column :items, :price, :bigint
  end

  def down
    change_column :items, :price, :integer
    change_column_default :items, :state, from: 'returned', to: 'new'
  end
end

class CreateOwners < ActiveRecord::Migration[6.1]
  def change
    create_table(:owners, id: :uuid) { |t| t.string :name; t.jsonb :settings, null: false, default: {} }
    add_reference :shops, :owner, type: :uuid, foreign_key: { on_delete: :cascade, validate: false }
    up_only { execute "INSERT INTO owners (name) VALUES ('first')" }
  end
end

class FillTheOwners < ActiveRecord::Migration[6.1]
  def up
    execute 'UPDATE shops SET owner_id = (SELECT id FROM owners LIMIT 1)'
    validate_foreign_key :shops, :owners
    change_column_null :shops, :owner_id, false, nil
  end

  def down
    change_column_null :shops, :owner_id, true
  end
end

class RenameThings < ActiveRecord::Migration[6.1]
  def change
    rename_column :items, :name, :title
    rename_table :tags, :labels
    rename_index :items, 'items_lower_name', 'items_lower_title'
    add_check_constraint :items, 'price >= 0', name: 'price_positive'
  end
end

class RemoveWhatIsOld < ActiveRecord::Migration[6.1]
  def change
    remove_index :items, column: :code, unique: true
    remove_column :items, :code, :uuid
    drop_join_table(:items, :tags) { |t| t.index [:tag_id, :item_id], unique: true }
    change_table(:items, bulk: true) { |t| t.text :notes; t.boolean :hidden, null: false, default: false }
  end
end

MIGRATIONS = [CreateShops, AddPriceToItems, CreateTags, IndexNamesConcurrently, AddStateOfItems, AddAValueOfTheState, UseTheValue,
              CreateOwners, FillTheOwners, RenameThings, RemoveWhatIsOld].freeze

ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'], database: ENV['PGDATABASE'],
                                        username: ENV['PGUSER'])
migrations = MIGRATIONS.each.with_index(1).map do |kind, n|
  kind.name.then { |name| kind.new(name, n) }
end
direction = ARGV.fetch(0).to_sym
ActiveRecord::SchemaMigration.create_table
ActiveRecord::InternalMetadata.create_table
ActiveRecord::Migrator.new(direction, migrations, ActiveRecord::SchemaMigration, direction == :up ? nil : 0).migrate
